//! Joining the physical queue with the guest's, and parting them: loans begin and end here only.

use super::Mapping;
use super::physical::{PhysicalQueue, Stopped, lose};
use super::state::MappingState;
use crate::port::zero_copy::{Direction, Guest};
use crate::port::{Kept, ReceiveHalf, RxQueue, Site, TransmitHalf};
use crate::switch::tenancy::Verdict;
use packet::BurstStorage;
use std::sync::Arc;
use virtqueue::memory::Memory;

impl Mapping {
    /// Reports whether buffers of the guest may be on loan in this direction.
    pub(super) fn is_joined(&self, direction: Direction) -> bool {
        match direction {
            Direction::ToGuest => self.mapped.is_reachable(),
            Direction::FromGuest => self.mapped.in_place_from() != 0,
        }
    }

    /// Returns the directions in which buffers of the guest may be on loan.
    pub(super) fn joined(&self) -> Vec<Direction> {
        Direction::BOTH.into_iter().filter(|&direction| self.is_joined(direction)).collect()
    }

    /// Stops the physical queue in these directions, and returns to the guest what it had lent. Returns all directions
    /// stopped. If any does not stop, the queue has failed, and none is started again.
    pub(super) fn rest(&self, state: &mut MappingState, mut directions: Vec<Direction>) -> Vec<Direction> {
        let Some(physical) = &mut state.physical else { return Vec::new() };
        let site = physical.site.clone();
        if physical.queue.is_coupled() && !directions.is_empty() {
            directions = Direction::BOTH.to_vec();
        }
        for (direction, stopped) in physical.stop(&directions) {
            let guest = state.guests.get(direction).filter(|_| self.is_joined(direction));
            match stopped {
                Ok(Stopped::Receive(half)) => self.recall(half, guest, &*site),
                Ok(Stopped::Transmit(half)) => self.release(half, guest),
                Err(why) => {
                    if let Some(Guest { site: owner, memory, .. }) = guest.cloned() {
                        let why = format!("port \"{}\" still owns some of the guest's buffers: {why}", site.name());
                        owner.fault().withhold(why);
                        state.withhold(&memory, site.drops());
                    }
                    // The loans known to the half are lost with it.
                    self.forget(direction);
                }
            }
        }
        directions
    }

    /// Marks the guest's queue as not lent.
    fn forget(&self, direction: Direction) {
        match direction {
            Direction::ToGuest => self.mapped.set_reachable(None),
            Direction::FromGuest => self.mapped.set_in_place_from(0),
        }
    }

    /// Returns the buffers that a stopped half has to the guest.
    fn recall(&self, half: Option<ReceiveHalf>, guest: Option<&Guest>, site: &dyn Site) {
        match guest {
            Some(guest) => {
                let recall = || -> Result<(), Kept> {
                    let Some(to_guest) = guest.site.detach_transmit(self.queues.guest)? else { return Ok(()) };
                    if let (Some(lend), Some(guest)) =
                        (half.as_ref().and_then(|half| half.zero_copy()), to_guest.guest())
                    {
                        lose(site, lend.recall(guest));
                    }
                    guest.site.attach_transmit(self.queues.guest, to_guest)
                };
                guest.site.end_session_if(recall());
            }
            None => lose(site, half.map_or(0, |half| waiting(&*half))),
        }
        self.forget(Direction::ToGuest);
    }

    /// Returns the chains that a stopped half has to the guest.
    fn release(&self, half: Option<TransmitHalf>, guest: Option<&Guest>) {
        if let Some(guest) = guest {
            let release = || -> Result<(), Kept> {
                let Some(owner) = guest.site.detach_receive(self.queues.guest)? else { return Ok(()) };
                if let (Some(sender), Some(chains)) = (half.as_ref().and_then(|half| half.zero_copy()), owner.chains())
                {
                    sender.recall(&mut |ids| chains.release(ids));
                }
                owner.recycle();
                guest.site.attach_receive(self.queues.guest, owner)
            };
            guest.site.end_session_if(release());
        }
        self.forget(Direction::FromGuest);
    }

    /// Lets the physical queue reach the memory of the present guest, and restarts the `rested` directions. Does nothing with
    /// a queue that has failed.
    pub(super) fn join(&self, state: &mut MappingState, mut rested: Vec<Direction>) {
        let mut memories: Vec<Arc<Memory>> = Vec::new();
        let mut is_lost = false;
        for guest in Direction::BOTH.into_iter().filter_map(|direction| state.guests.get(direction)) {
            is_lost |= state.withholds(&guest.memory);
            if !is_among(&memories, &guest.memory) {
                memories.push(guest.memory.clone());
            }
        }
        // This guest is about to lose its device.
        if is_lost {
            memories.clear();
        }
        let macs = match &state.verdict {
            Verdict::Steered(macs) => Some(macs.iter().map(|mac| mac.0).collect::<Vec<_>>()),
            _ => None,
        };
        let Some(PhysicalQueue { site, queue, .. }) = state.working() else { return };
        // The packets of an aggregate need separate buffers.
        self.mapped.set_splits(site.aggregates());
        if queue.rests_to_share(&memories, macs.as_deref()) {
            self.rest_also(state, &mut rested, &Direction::BOTH);
        }
        let Some(PhysicalQueue { site, queue, refused, .. }) = state.working() else { return };
        let shared = queue.share(&memories, macs.as_deref());
        *refused = shared.clone().err();
        if let Err(why) = &shared {
            tracing::warn!("port \"{}\" copies: {why}", site.name());
        }
        let lends = shared.is_ok() && !is_lost && !matches!(state.verdict, Verdict::Copied(_));
        let takes = state.guests.to.as_ref().filter(|_| lends).map(|guest| guest.memory.clone());
        let sends = state.guests.from.as_ref().filter(|_| shared.is_ok() && !is_lost).map_or(0, |guest| guest.id);
        // The queue restarts, so that all frames after that are in buffers of one kind.
        if self.mapped.is_reachable() != takes.is_some() {
            self.rest_also(state, &mut rested, &[Direction::ToGuest]);
        }
        if self.mapped.in_place_from() != 0 && sends == 0 {
            self.rest_also(state, &mut rested, &[Direction::FromGuest]);
        }
        let Some(physical) = state.working() else { return };
        self.mapped.set_reachable(takes);
        self.mapped.set_in_place_from(sends);
        physical.start(&rested, Some(&self.mapped));
    }

    /// Stops those of these directions that are not `rested`, and adds them.
    pub(super) fn rest_also(&self, state: &mut MappingState, rested: &mut Vec<Direction>, directions: &[Direction]) {
        let others = directions.iter().filter(|direction| !rested.contains(direction)).copied().collect();
        rested.extend(self.rest(state, others));
    }
}

/// Reports whether `memory` is one of `memories`.
fn is_among(memories: &[Arc<Memory>], memory: &Arc<Memory>) -> bool {
    memories.iter().any(|known| Arc::ptr_eq(known, memory))
}

/// Drains a stopped queue and returns its number of frames: at most as many as a ring holds, as a device that claims to
/// have stopped may continue.
fn waiting(half: &dyn RxQueue) -> u64 {
    let mut storage = Box::<BurstStorage>::default();
    let mut frames = 0;
    for _ in 0..virtqueue::MAX_QUEUE_SIZE {
        let mut burst = storage.start();
        let any = half.receive(&mut burst);
        frames += burst.len() as u64;
        half.recycle();
        if !any || frames >= virtqueue::MAX_QUEUE_SIZE.into() {
            break;
        }
    }
    frames
}
