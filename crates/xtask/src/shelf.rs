//! The shelf: tests that are built and wait to be run. It gives out as many at once as the machine has processors for, besides those
//! that the compiler keeps busy.

use crate::durations::Durations;
use crate::part::Part;
use std::ops::Deref;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Processors that tests on the way and the compiler may keep busy, for each one of the machine: hardly any test does so all the time.
/// With more, tests that poll take time from those that others wait for.
const LOAD: f64 = 1.5;

/// Share of the processors from which on a test is heavy. With less, one would run alone at the end that leaves half of a processor to
/// another.
const HEAVY: f64 = 0.75;

/// Most tests on the way, for each processor: some hardly need one.
const AT_ONCE: usize = 4;

/// Tests that are built and wait to be run.
pub struct Shelf {
    durations: Durations,
    processors: usize,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    waiting: Vec<Part>,
    on_the_way: usize,
    /// Tells whether one of those is heavy.
    is_heavy: bool,
    /// Processors that those keep busy.
    busy: f64,
    is_building: bool,
    /// Tells whether the compiler keeps all processors busy, for a build or for lints.
    is_compiling: bool,
}

impl Shelf {
    /// Returns the empty shelf, for a build that will begin.
    pub fn new(durations: Durations) -> Shelf {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Shelf::of(durations, processors)
    }

    fn of(durations: Durations, processors: usize) -> Shelf {
        let state = State {
            waiting: Vec::new(),
            on_the_way: 0,
            is_heavy: false,
            busy: 0.0,
            is_building: true,
            is_compiling: true,
        };
        Shelf { durations, processors, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Returns the greatest number of parts that are taken at once.
    pub fn at_once(&self) -> usize {
        AT_ONCE * self.processors
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

    /// Says that the compiler has ended.
    pub fn end_compiler(&self) {
        self.state().is_compiling = false;
        self.changed.notify_all();
    }

    /// Takes the part that is best run next; waits for one. Returns `None` when all are taken and nothing more is built.
    pub fn take(&self) -> Option<Taken<'_>> {
        let mut state = self.state();
        loop {
            if let Some(at) = self.next_of(&state) {
                let part = state.waiting.swap_remove(at);
                let (_, busy) = self.cost(&part);
                state.on_the_way += 1;
                state.is_heavy |= self.is_heavy(&part);
                state.busy += busy;
                return Some(Taken { part, busy, shelf: self });
            }
            if !state.is_building && state.waiting.is_empty() {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the index of the part to run next, if there is room for it: the longest of the heavy ones, if none is on its way, or
    /// else the longest of the others. These would take the room of a heavy one before there is enough; two heavy ones would make each
    /// other slow, and the compiler makes them slow as well.
    fn next_of(&self, state: &State) -> Option<usize> {
        let processors = self.processors as f64;
        let room = processors * LOAD - state.busy - if state.is_compiling { processors } else { 0.0 };
        let heavy = !state.is_compiling && !state.is_heavy && state.waiting.iter().any(|part| self.is_heavy(part));
        let is_first = state.on_the_way == 0;
        let may_go = |part: &Part| self.is_heavy(part) == heavy && (self.cost(part).1 <= room || is_first);
        let candidates = state.waiting.iter().enumerate().filter(|(_, part)| may_go(part));
        candidates.max_by_key(|(_, part)| self.cost(part).0).map(|(at, _)| at)
    }

    /// Tells whether a part needs most of the machine.
    fn is_heavy(&self, part: &Part) -> bool {
        self.cost(part).1 > self.processors as f64 * HEAVY
    }

    /// Returns how long a part takes, and how many processors it counts for.
    fn cost(&self, part: &Part) -> (Duration, f64) {
        let (time, busy) = self.durations.of(&part.name());
        // While a test measures, others use the processors that it leaves.
        (time, if part.measures() { self.processors as f64 } else { busy })
    }
}

/// A part on its way, until this is dropped.
pub struct Taken<'s> {
    part: Part,
    busy: f64,
    shelf: &'s Shelf,
}

impl Deref for Taken<'_> {
    type Target = Part;

    fn deref(&self) -> &Part {
        &self.part
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.shelf.state();
        state.on_the_way -= 1;
        state.is_heavy &= !self.shelf.is_heavy(&self.part);
        state.busy -= self.busy;
        drop(state);
        self.shelf.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::tests::{library_of, testbed};

    fn shelf<const N: usize>(durations: [(&str, f64, f64); N]) -> Shelf {
        let shelf = Shelf::of(Durations::of_last(durations), 2);
        shelf.end_compiler();
        shelf.put(durations.map(|(name, ..)| library_of(name.split(':').next().unwrap())));
        shelf
    }

    /// Takes the next one, which there must be room for.
    fn take(shelf: &Shelf) -> Taken<'_> {
        assert!(has_room(shelf), "it would wait");
        shelf.take().unwrap()
    }

    fn has_room(shelf: &Shelf) -> bool {
        shelf.next_of(&shelf.state()).is_some()
    }

    #[test]
    fn the_longest_is_next() {
        let shelf = shelf([("nf: ports", 1.0, 0.5), ("engine: ports", 2.0, 0.5), ("e2e: ports", 0.1, 0.5)]);
        let all = [0; 3].map(|_| take(&shelf));
        assert_eq!(all.each_ref().map(|part| part.name()), ["engine: ports", "nf: ports", "e2e: ports"]);
        shelf.close();
        assert!(shelf.take().is_none());
    }

    #[test]
    fn there_are_as_many_at_once_as_processors_for_them() {
        let shelf = shelf([("nf: ports", 9.0, 0.9), ("engine: ports", 5.0, 0.9), ("e2e: ports", 2.0, 0.9)]);
        let first = [0; 3].map(|_| take(&shelf));
        shelf.put([library_of("xsk")]);
        assert!(!has_room(&shelf));
        std::thread::scope(|scope| {
            let last = scope.spawn(|| shelf.take().unwrap().name());
            drop(first);
            assert_eq!(last.join().unwrap(), "xsk: ports");
        });
    }

    #[test]
    fn one_whose_length_is_unknown_does_not_begin_last() {
        let shelf = shelf([("nf: ports", 9.0, 0.5)]);
        shelf.put([library_of("xsk")]);
        assert_eq!(take(&shelf).name(), "xsk: ports");
    }

    #[test]
    fn beside_the_compiler_there_are_fewer_and_light_ones() {
        let shelf = shelf([("nf: ports", 9.0, 1.6), ("engine: ports", 5.0, 0.9), ("e2e: ports", 2.0, 0.9)]);
        shelf.state().is_compiling = true;
        let light = take(&shelf);
        assert_eq!(light.name(), "engine: ports");
        assert!(!has_room(&shelf));
        shelf.end_compiler();
        assert_eq!(take(&shelf).name(), "nf: ports");
    }

    #[test]
    fn two_that_need_half_of_the_machine_run_side_by_side() {
        let shelf = shelf([("nf: ports", 9.0, 1.4), ("engine: ports", 5.0, 1.3), ("e2e: ports", 2.0, 1.1)]);
        let both = [0; 2].map(|_| take(&shelf));
        assert_eq!(both.each_ref().map(|part| part.name()), ["nf: ports", "engine: ports"]);
        assert!(!has_room(&shelf));
    }

    #[test]
    fn more_than_the_machine_has_runs_alone() {
        let shelf = shelf([("nf: ports", 9.0, 4.0), ("engine: ports", 5.0, 0.1)]);
        let first = take(&shelf);
        assert_eq!(first.name(), "nf: ports");
        assert!(!has_room(&shelf));
    }

    #[test]
    fn heavy_parts_run_first_and_one_at_a_time() {
        let shelf = shelf([("nf: ports", 3.0, 0.7), ("engine: ports", 5.0, 2.2), ("e2e: ports", 4.0, 0.4)]);
        // It measures.
        shelf.put([testbed("ovs")]);
        let (heavy, light) = (take(&shelf), take(&shelf));
        assert_eq!([heavy.name(), light.name()], ["testbed: tests/ovs", "e2e: ports"]);
        drop(heavy);
        let heavy = take(&shelf);
        assert_eq!(heavy.name(), "engine: ports");
        assert!(!has_room(&shelf));
        drop(light);
        assert_eq!(take(&shelf).name(), "nf: ports");
    }
}
