//! The states of a mapping.
//!
//! ```text
//!               enter                   the queue does not stop, or does not start
//!   Closed ───────────────► Working ────────────────────────────────────────────────► Failed
//!     ▲                        │                                                        │
//!     └────────────────────────┴────────────────────────────────────────────────────────┘
//!                            physical_down, or leave for another mapping
//! ```
//!
//! While its queue works, every change (a queue of the guest comes or goes, a new verdict) stops the directions concerned, lets
//! all loans return, and starts them again. A queue that has failed does nothing any more, in this mapping or in another that
//! it is handed on to, until its port closes it and is opened again.
//!
//! Memory of a guest that a failed queue may still fill is withheld: it stays until the queue's port could be opened again, so
//! that nothing uses its old queues. If it is another port, or a reload reopens it, nobody learns when that is: the memory is
//! lost. A mapping that a reload has removed withholds memory in the same way ([`super::MappingSlot`]).

use super::physical::PhysicalQueue;
use crate::drops::Drops;
use crate::port::zero_copy::{Direction, Guest};
use crate::switch::tenancy::Verdict;
use std::sync::Arc;
use virtqueue::memory::Memory;

/// State of a mapping. Locked before the fabric is.
pub(super) struct MappingState {
    /// The queue that fills the guest's buffers, while its port is up.
    pub(super) physical: Option<PhysicalQueue>,
    pub(super) guests: Guests,
    pub(super) verdict: Verdict,
    withheld: Vec<Withheld>,
}

/// Running queues of the guest.
#[derive(Default)]
pub(super) struct Guests {
    /// Its receive queue.
    pub(super) to: Option<Guest>,
    /// Its transmit queue.
    pub(super) from: Option<Guest>,
}

impl Guests {
    pub(super) fn get(&self, direction: Direction) -> Option<&Guest> {
        match direction {
            Direction::ToGuest => self.to.as_ref(),
            Direction::FromGuest => self.from.as_ref(),
        }
    }

    pub(super) fn get_mut(&mut self, direction: Direction) -> &mut Option<Guest> {
        match direction {
            Direction::ToGuest => &mut self.to,
            Direction::FromGuest => &mut self.from,
        }
    }
}

/// Memory of a guest that a queue may still fill, as it did not stop.
struct Withheld {
    /// The port of the queue, which is known by its counters.
    port: Arc<Drops>,
    memory: Arc<Memory>,
}

impl MappingState {
    pub(super) fn new(verdict: Verdict) -> MappingState {
        MappingState { physical: None, guests: Guests::default(), verdict, withheld: Vec::new() }
    }

    /// Returns the queue, if its port is up and it has not failed.
    pub(super) fn working(&mut self) -> Option<&mut PhysicalQueue> {
        self.physical.as_mut().filter(|physical| physical.failed.is_none())
    }

    /// Keeps `memory`, as a queue of `port` that did not stop may still fill it.
    pub(super) fn withhold(&mut self, memory: &Arc<Memory>, port: &Arc<Drops>) {
        if !self.withholds(memory) {
            self.withheld.push(Withheld { port: port.clone(), memory: memory.clone() });
        }
    }

    /// Reports whether a queue may still fill `memory`, of this port or of one before.
    pub(super) fn withholds(&self, memory: &Arc<Memory>) -> bool {
        self.withheld.iter().any(|known| Arc::ptr_eq(&known.memory, memory))
    }

    /// Reports whether a queue may still fill any memory.
    pub(super) fn withholds_any(&self) -> bool {
        !self.withheld.is_empty()
    }

    /// Releases the memories that queues of `port` might still have filled: it could be opened again.
    pub(super) fn release_withheld(&mut self, port: &Arc<Drops>) {
        self.withheld.retain(|known| !Arc::ptr_eq(&known.port, port));
    }
}

impl Drop for MappingState {
    fn drop(&mut self) {
        // Nobody is left to learn when the memory is released: leaking it is better than giving it to another guest.
        self.withheld.drain(..).for_each(|known| std::mem::forget(known.memory));
    }
}
