//! The states of a mapping.
//!
//! ```text
//!                enter                           a queue does not stop
//!   Closed ───────────────────► Open ─────────────────────────────────► Stuck
//!     ▲                         │  ▲                                     │  │ ▲
//!     └─────────────────────────┘  └─────────────────────────────────────┘  └─┘ physical_down, leave:
//!        physical_down, leave         enter: the port could be                  the memory stays
//!                                     opened again, so nothing uses its old queues; if it is
//!                                     another port, or a reload reopens it, the memory is lost
//! ```
//!
//! A mapping that is `Stuck` and that a reload has removed ends with [`super::Seat`], in the same two ways.
//!
//! While it is `Open`, every change (a queue of the guest comes or goes, a new verdict) stops the directions concerned, lets
//! all loans return, and starts them again.

use super::physical::PhysicalQueue;
use crate::drops::Drops;
use crate::port::zero_copy::{Direction, Guest};
use crate::switch::tenancy::Verdict;
use std::sync::Arc;
use virtqueue::memory::Memory;

/// State of a mapping. Locked before the fabric is.
pub(super) struct MappingState {
    pub(super) filler: Filler,
    pub(super) guests: Guests,
    pub(super) verdict: Verdict,
    /// Memories that a queue of another port may still fill, for ever.
    pub(super) lost: Vec<Arc<Memory>>,
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

/// The physical queue, which fills the guest's buffers.
pub(super) enum Filler {
    /// Its port is down.
    Closed,
    /// Its port is up.
    Open(PhysicalQueue),
    /// It did not stop, and may still fill these memories. If its port, which is known by its counters, is still up, it is
    /// unusable.
    Stuck { physical: Option<PhysicalQueue>, port: Arc<Drops>, memories: Vec<Arc<Memory>> },
}

impl Filler {
    /// Returns the queue, if its port is up.
    pub(super) fn physical(&mut self) -> Option<&mut PhysicalQueue> {
        match self {
            Filler::Open(physical) | Filler::Stuck { physical: Some(physical), .. } => Some(physical),
            Filler::Closed | Filler::Stuck { physical: None, .. } => None,
        }
    }

    /// Notes that the port is down.
    pub(super) fn close(&mut self) {
        match self {
            Filler::Stuck { physical, .. } => *physical = None,
            Filler::Closed | Filler::Open(_) => *self = Filler::Closed,
        }
    }

    /// Takes the queue, which is at rest. One that did not stop is of no use to anybody, and its port has failed.
    pub(super) fn take(&mut self) -> Option<PhysicalQueue> {
        match std::mem::replace(self, Filler::Closed) {
            Filler::Open(physical) => Some(physical),
            other => {
                *self = other;
                self.close();
                None
            }
        }
    }

    /// Keeps `memory`, as a queue that did not stop may still fill it.
    pub(super) fn withhold(&mut self, memory: &Arc<Memory>) {
        if let Filler::Stuck { memories, .. } = self {
            if !is_among(memories, memory) {
                memories.push(memory.clone());
            }
            return;
        }
        if let Filler::Open(physical) = std::mem::replace(self, Filler::Closed) {
            let port = physical.site.drops().clone();
            *self = Filler::Stuck { physical: Some(physical), port, memories: vec![memory.clone()] };
        }
    }

    /// Reports whether a queue did not stop.
    pub(super) fn is_stuck(&self) -> bool {
        matches!(self, Filler::Stuck { .. })
    }

    /// Reports whether the queue may still fill `memory`.
    fn withholds(&self, memory: &Arc<Memory>) -> bool {
        matches!(self, Filler::Stuck { memories, .. } if is_among(memories, memory))
    }

    /// Takes the memories that the queue may still fill.
    fn take_withheld(&mut self) -> Vec<Arc<Memory>> {
        if let Filler::Stuck { memories, .. } = self { std::mem::take(memories) } else { Vec::new() }
    }
}

impl MappingState {
    /// Notes that the physical port is up. If it is the one whose queue did not stop, nothing uses that queue any more; what
    /// the queue of another port may still fill is lost.
    pub(super) fn open(&mut self, physical: PhysicalQueue) {
        if let Filler::Stuck { port, .. } = &self.filler
            && !Arc::ptr_eq(port, physical.site.drops())
        {
            self.lost.append(&mut self.filler.take_withheld());
        }
        self.filler = Filler::Open(physical);
    }

    /// Reports whether a queue may still fill `memory`, of this port or of one before.
    pub(super) fn withholds(&self, memory: &Arc<Memory>) -> bool {
        self.filler.withholds(memory) || self.is_lost(memory)
    }

    /// Reports whether a queue of a port before may still fill `memory`.
    pub(super) fn is_lost(&self, memory: &Arc<Memory>) -> bool {
        is_among(&self.lost, memory)
    }
}

impl Drop for MappingState {
    fn drop(&mut self) {
        // Nobody is left to learn when the memory is released: leaking it is better than giving it to another guest.
        self.lost.append(&mut self.filler.take_withheld());
        self.lost.drain(..).for_each(std::mem::forget);
    }
}

/// Reports whether `memory` is one of `memories`.
pub(super) fn is_among(memories: &[Arc<Memory>], memory: &Arc<Memory>) -> bool {
    memories.iter().any(|known| Arc::ptr_eq(known, memory))
}
