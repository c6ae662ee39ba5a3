//! Mappings: the guests whose buffers the queues of a physical port receive into.
//!
//! Both ends come and go. Buffers are lent while both are present; before either changes, the physical queue is
//! stopped, so that nothing fills the buffers any more, and they return to the guest. A mapping ends in no other way.
//!
//! The exception is a queue that does not stop: buffers that it may still fill never return. The guest's session ends, so that
//! the guest learns that its device is gone, and its memory stays until the physical port could be opened again.

mod join;
mod shown;
mod state;
#[cfg(test)]
mod tests;

use super::tenancy::Verdict;
use crate::port::zero_copy::{Guest, GuestBuffers, Mapped, MappingEnd, ZeroCopyPort};
use crate::port::{Kept, ReceiveHalf, Site, TransmitHalf, copy_break};
use crate::spec::MappingSpec;
use shown::Shown;
use state::{Filler, Physical, State};
use std::sync::{Arc, Mutex};

/// One mapping of a specification.
pub(super) struct Mapping {
    spec: MappingSpec,
    /// State shared with the queues' halves, by queue pair.
    queues: Vec<Arc<Mapped>>,
    /// May be locked for long, while waiting for workers and for the filler of buffers.
    state: Mutex<State>,
    /// Copy of the state for display, which is never locked for long.
    shown: Mutex<Shown>,
}

impl Mapping {
    pub(super) fn new(spec: MappingSpec, verdict: Verdict, queues: usize) -> Mapping {
        let copy_break = spec.copy_break.unwrap_or_else(copy_break::measured);
        let mapped = || Arc::new(Mapped::new(spec.pass_through, copy_break));
        let state = State { filler: Filler::Closed, guests: vec![None; 2 * queues], verdict };
        let shown = Mutex::new(Shown::of(&state));
        Mapping { queues: (0..queues).map(|_| mapped()).collect(), spec, state: Mutex::new(state), shown }
    }

    pub(super) fn spec(&self) -> &MappingSpec {
        &self.spec
    }

    /// Sets by how many bytes frames grow on their way to the guest.
    pub(super) fn expect_growth(&self, bytes: i32) {
        self.queues.iter().for_each(|mapped| mapped.set_growth(bytes));
    }

    /// Changes the state, and updates the copy for display.
    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock().unwrap();
        let done = change(&mut state);
        *self.shown.lock().unwrap() = Shown::of(&state);
        done
    }

    /// Applies a new verdict on how frames are received.
    pub(super) fn review(&self, verdict: Verdict) {
        self.change(|state| {
            if state.verdict != verdict {
                state.verdict = verdict;
                self.join(state, Vec::new());
            }
        });
    }

    /// Runs `change`, after which other halves of either end may lend or borrow: nothing is lent meanwhile, and the
    /// queues concerned restart.
    pub(super) fn at_rest(&self, change: impl FnOnce()) {
        self.change(|state| {
            let joined = (0..state.guests.len()).filter(|&index| self.is_joined(index)).collect();
            let rested = self.rest(state, joined);
            change();
            self.join(state, rested);
        });
    }

    /// Removes a queue of the guest from the physical port, if that may have buffers of it. Returns the queues stopped
    /// for that, and an error if any buffer of the guest's memory is still in use.
    fn part(&self, state: &mut State, index: usize) -> (Vec<usize>, Result<(), Kept>) {
        let rested = if self.is_joined(index) { self.rest(state, vec![index]) } else { Vec::new() };
        let guest = state.guests.get_mut(index).and_then(Option::take);
        let withheld = guest.is_some_and(|guest| state.filler.withholds(&guest.memory));
        let whole = if withheld {
            Err(Kept(format!("port \"{}\" still owns some of the guest's buffers", self.spec.from)))
        } else {
            Ok(())
        };
        (rested, whole)
    }
}

impl MappingEnd for Mapping {
    fn queue(&self, queue: usize) -> Option<Arc<Mapped>> {
        self.queues.get(queue).cloned()
    }

    fn physical_up(&self, site: Arc<dyn Site>, port: Box<dyn ZeroCopyPort>) {
        self.change(|state| {
            state.filler = Filler::Open(Physical { site, port, refused: None });
            self.join(state, Vec::new());
        });
    }

    fn physical_down(&self) {
        self.change(|state| {
            let joined = (0..state.guests.len()).filter(|&index| self.is_joined(index)).collect();
            self.rest(state, joined);
            state.filler.close();
        });
    }

    fn guest_up(&self, index: usize, guest: Guest) {
        self.change(|state| {
            if let Some(known) = state.guests.get_mut(index) {
                *known = Some(guest);
                self.join(state, Vec::new());
            }
        });
    }

    fn guest_receive_down(&self, site: &dyn Site, queue: usize) -> Result<Option<TransmitHalf>, Kept> {
        self.change(|state| {
            let (rested, whole) = self.part(state, 2 * queue);
            let half = site.detach_transmit(queue);
            if !rested.is_empty() && whole.is_ok() {
                half.iter().flatten().filter_map(|half| half.guest()).for_each(GuestBuffers::close);
            }
            self.join(state, rested);
            whole.and(half)
        })
    }

    fn guest_transmit_down(&self, site: &dyn Site, queue: usize) -> Result<Option<ReceiveHalf>, Kept> {
        self.change(|state| {
            let (rested, whole) = self.part(state, 2 * queue + 1);
            let owner = site.detach_receive(queue);
            self.join(state, rested);
            whole.and(owner)
        })
    }
}
