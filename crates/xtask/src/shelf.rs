//! The shelf: tests that are built and wait to be run.

use crate::durations::Durations;
use crate::part::Part;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Tests that are built and wait to be run.
pub struct Shelf {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    waiting: Vec<Part>,
    is_building: bool,
}

impl Shelf {
    /// Returns the empty shelf, for a build that will begin.
    pub fn new() -> Shelf {
        Shelf { state: Mutex::new(State { waiting: Vec::new(), is_building: true }), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn put(&self, parts: impl IntoIterator<Item = Part>) {
        self.state().waiting.extend(parts);
        self.changed.notify_all();
    }

    /// Says that nothing more is built.
    pub fn close(&self) {
        self.state().is_building = false;
        self.changed.notify_all();
    }

    /// Takes the part that takes longest; waits for one. Returns `None` when all are taken and nothing more is built.
    pub fn take(&self, durations: &Durations) -> Option<Part> {
        let mut state = self.state();
        loop {
            let longest = state.waiting.iter().enumerate().max_by_key(|(_, part)| durations.of(&part.name()));
            if let Some((at, _)) = longest {
                return Some(state.waiting.swap_remove(at));
            }
            if !state.is_building {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::tests::library_of;

    #[test]
    fn the_longest_is_next() {
        let (shelf, durations) = (Shelf::new(), Durations::of_last([("nf: ports", 1.0), ("engine: ports", 2.0)]));
        shelf.put(["nf", "engine", "e2e"].map(library_of));
        let take = || shelf.take(&durations).map(|part| part.name());
        assert_eq!([take(), take(), take()].map(Option::unwrap), ["engine: ports", "nf: ports", "e2e: ports"]);
        shelf.close();
        assert_eq!(take(), None);
    }
}
