//! Mappings: the guest whose buffers a physical queue receives into. Each pair of queues is a mapping of its own, so that a
//! guest that comes or goes stops no queue but its own.
//!
//! Both ends come and go, and a reload moves a physical queue from one mapping to another while its port is open ([`MappingSlot`]).
//! Buffers are lent while both are present; before either changes, the physical queue is stopped, so that nothing fills the
//! buffers any more, and they return to the guest. A mapping ends in no other way.
//!
//! The exception is a queue that does not stop: buffers that it may still fill never return. The guest's session ends, so that
//! the guest learns that its device is gone, and its memory stays until the physical port could be opened again. Such a queue
//! has failed, also if it has no buffers of a guest, and is not used any more.

mod ends;
mod join;
mod physical;
mod seat;
mod shown;
mod state;
mod stats;
#[cfg(test)]
mod tests;

use super::tenancy::Verdict;
use crate::drops::Drops;
use crate::port::zero_copy::{Direction, Guest, GuestBuffers, GuestEnd, Mapped};
use crate::port::{Kept, ReceiveHalf, Site, TransmitHalf};
use crate::spec::{MappedQueues, MappingSpec};
use physical::PhysicalQueue;
use shown::Shown;
use state::MappingState;
use std::sync::{Arc, Mutex};

pub(super) use ends::Ends;
pub(super) use seat::MappingSlot;

/// The mapping of a physical queue to a guest's queue.
pub(super) struct Mapping {
    /// The mapping of the specification that this is one pair of.
    spec: MappingSpec,
    queues: MappedQueues,
    /// State shared with the halves of the physical queue.
    mapped: Arc<Mapped>,
    /// May be locked for long, while waiting for workers and for the filler of buffers.
    state: Mutex<MappingState>,
    /// Copy of the state for display, which is never locked for long.
    shown: Mutex<Shown>,
}

impl Mapping {
    pub(super) fn new(spec: MappingSpec, verdict: Verdict, queues: MappedQueues) -> Mapping {
        let mapped = Arc::new(Mapped::new(spec.pass_through, spec.copy_break));
        let state = MappingState::new(verdict);
        let shown = Mutex::new(Shown::of(&state));
        Mapping { spec, queues, mapped, state: Mutex::new(state), shown }
    }

    pub(super) fn spec(&self) -> &MappingSpec {
        &self.spec
    }

    /// Returns the queues that it joins.
    #[cfg(test)]
    pub(super) fn queues(&self) -> MappedQueues {
        self.queues
    }

    /// Reports whether it is a pair of this mapping of a specification.
    pub(super) fn is_of(&self, spec: &MappingSpec) -> bool {
        self.spec.from == spec.from && self.spec.to == spec.to
    }

    /// Reports whether a queue of this port is one of its ends.
    pub(super) fn has_end_at(&self, port: &str) -> bool {
        self.spec.from.port == port || self.spec.to.port == port
    }

    /// Sets by how many bytes frames grow on their way to the guest.
    pub(super) fn expect_growth(&self, bytes: i32) {
        self.mapped.set_growth(bytes);
    }

    /// Changes the state, and updates the copy for display.
    fn change<R>(&self, change: impl FnOnce(&mut MappingState) -> R) -> R {
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
    /// queue restarts.
    pub(super) fn at_rest(&self, change: impl FnOnce()) {
        self.change(|state| {
            let rested = self.rest(state, self.joined());
            change();
            self.join(state, rested);
        });
    }

    /// Adds the physical queue, of which these directions are at rest, and runs it with this mapping. Fails if the queue has
    /// failed, or fails now.
    fn enter(&self, physical: PhysicalQueue, mut rested: Vec<Direction>) -> Result<(), String> {
        self.change(|state| {
            let physical = state.physical.insert(physical);
            physical.works()?;
            self.rest_also(state, &mut rested, &Direction::BOTH);
            self.join(state, rested);
            state.physical.as_ref().map_or(Ok(()), PhysicalQueue::works)
        })
    }

    /// Removes the physical queue for another mapping, or none: all of the guest's buffers return to it. Returns the queue, if
    /// the port is up. It is at rest, or has failed.
    fn leave(&self) -> Option<PhysicalQueue> {
        self.change(|state| {
            self.rest(state, Direction::BOTH.to_vec());
            state.physical.take()
        })
    }

    /// Removes the physical queue, which has ended or will: nothing fills or reads its buffers. Returns the reason if it failed.
    fn physical_down(&self) -> Option<String> {
        self.change(|state| {
            self.rest(state, self.joined());
            state.physical.take().and_then(|physical| physical.failed)
        })
    }

    /// Reports whether a queue may still fill memory of the guest, as it did not stop.
    fn withholds_any(&self) -> bool {
        self.state.lock().unwrap().withholds_any()
    }

    /// Releases memory that queues of `port` might still have filled: it could be opened again.
    fn release_withheld(&self, port: &Arc<Drops>) {
        self.change(|state| state.release_withheld(port));
    }

    /// Removes a queue of the guest from the physical one, if that may have buffers of it. Returns the directions stopped
    /// for that, and an error if any buffer of the guest's memory is still in use.
    fn part(&self, state: &mut MappingState, direction: Direction) -> (Vec<Direction>, Result<(), Kept>) {
        let rested = if self.is_joined(direction) { self.rest(state, vec![direction]) } else { Vec::new() };
        let guest = state.guests.get_mut(direction).take();
        let withheld = guest.is_some_and(|guest| state.withholds(&guest.memory));
        let whole = if withheld {
            Err(Kept(format!("port \"{}\" still owns some of the guest's buffers", self.spec.from.port)))
        } else {
            Ok(())
        };
        (rested, whole)
    }
}

impl GuestEnd for Mapping {
    fn guest_up(&self, direction: Direction, guest: Guest) {
        self.change(|state| {
            *state.guests.get_mut(direction) = Some(guest);
            self.join(state, Vec::new());
        });
    }

    fn guest_receive_down(&self, site: &dyn Site) -> Result<Option<TransmitHalf>, Kept> {
        self.change(|state| {
            let (rested, whole) = self.part(state, Direction::ToGuest);
            let half = site.detach_transmit(self.queues.guest);
            // Also if the physical queue had gone before: a ring that has never lent is left as it is.
            if whole.is_ok() {
                half.iter().flatten().filter_map(|half| half.guest()).for_each(GuestBuffers::close);
            }
            self.join(state, rested);
            whole.and(half)
        })
    }

    fn guest_transmit_down(&self, site: &dyn Site) -> Result<Option<ReceiveHalf>, Kept> {
        self.change(|state| {
            let (rested, whole) = self.part(state, Direction::FromGuest);
            let owner = site.detach_receive(self.queues.guest);
            self.join(state, rested);
            whole.and(owner)
        })
    }
}
