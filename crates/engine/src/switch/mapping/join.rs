//! Joining the physical queues with the guest's, and parting them: loans begin and end here only.

use super::Mapping;
use super::state::{Physical, State, is_among};
use crate::drops::Reason;
use crate::port::zero_copy::{Guest, ZeroCopyPort};
use crate::port::{Kept, LifeCycle, ReceiveHalf, RxQueue, Site, TransmitHalf};
use crate::switch::tenancy::Verdict;
use packet::BurstStorage;
use std::sync::Arc;
use virtqueue::memory::Memory;

impl Mapping {
    /// Reports whether buffers of the guest's queue may be on loan.
    pub(super) fn is_joined(&self, index: usize) -> bool {
        let Some(mapped) = self.queues.get(index / 2) else { return false };
        if index.is_multiple_of(2) { mapped.is_reachable() } else { mapped.in_place_from() != 0 }
    }

    /// Stops physical queues, and returns to the guest what it had lent to them. Returns all queues stopped.
    pub(super) fn rest(&self, state: &mut State, mut indices: Vec<usize>) -> Vec<usize> {
        let Some(Physical { site, port, .. }) = state.filler.physical() else { return Vec::new() };
        let site = site.clone();
        if port.is_coupled() {
            indices = indices.iter().flat_map(|index| [index & !1, index | 1]).collect();
            indices.sort_unstable();
            indices.dedup();
        }
        let halves: Vec<_> = indices.iter().map(|&index| (index, self.halt(&*site, index))).collect();
        // A queue that a worker still has does not count as stopped when its filler has stopped.
        let stop = |(index, half): (usize, Result<Stopped, Kept>)| {
            let half = half.inspect_err(|_| port.fail()).map_err(|why| why.to_string());
            (index, half.and_then(|half| port.stop(index).map(|()| half)))
        };
        let stopped: Vec<_> = halves.into_iter().map(stop).collect();
        for (index, stopped) in stopped {
            // A port may have more queues than the mapping.
            let guest = state.guests.get(index).and_then(Option::as_ref).filter(|_| self.is_joined(index));
            let half = match stopped {
                Ok(half) => half,
                Err(why) => {
                    tracing::error!("port \"{}\": queue {} could not be stopped: {why}", site.name(), index / 2);
                    if let Some(guest) = guest {
                        let why = format!("port \"{}\" still owns some of the guest's buffers: {why}", site.name());
                        guest.site.fault().withhold(why);
                        state.filler.withhold(&guest.memory);
                    }
                    // The loans known to the half are lost with it.
                    self.forget(index);
                    continue;
                }
            };
            match half {
                Stopped::Receive(half) => self.recall(index / 2, half, guest, &*site),
                Stopped::Transmit(half) => self.release(index / 2, half, guest),
            }
        }
        indices
    }

    /// Marks the guest's queue as not lent.
    fn forget(&self, index: usize) {
        let Some(mapped) = self.queues.get(index / 2) else { return };
        if index.is_multiple_of(2) { mapped.set_reachable(false) } else { mapped.set_in_place_from(0) }
    }

    /// Takes the half of a physical queue from its worker.
    fn halt(&self, site: &dyn Site, index: usize) -> Result<Stopped, Kept> {
        let queue = index / 2;
        let stop = |half: Option<&mut dyn LifeCycle>| lose(site, half.map_or(0, LifeCycle::stop));
        Ok(if index.is_multiple_of(2) {
            let mut half = site.detach_receive(queue)?;
            stop(half.as_mut().and_then(|half| half.life_cycle()));
            Stopped::Receive(half)
        } else {
            let mut half = site.detach_transmit(queue)?;
            stop(half.as_mut().and_then(|half| half.life_cycle()));
            Stopped::Transmit(half)
        })
    }

    /// Returns the buffers that a stopped queue has to the guest.
    fn recall(&self, queue: usize, half: Option<ReceiveHalf>, guest: Option<&Guest>, site: &dyn Site) {
        match guest {
            Some(guest) => {
                let recall = || -> Result<(), Kept> {
                    let Some(to_guest) = guest.site.detach_transmit(guest.queue)? else { return Ok(()) };
                    if let (Some(lend), Some(guest)) =
                        (half.as_ref().and_then(|half| half.zero_copy()), to_guest.guest())
                    {
                        lose(site, lend.recall(guest));
                    }
                    guest.site.attach_transmit(guest.queue, to_guest)
                };
                guest.site.end_session_if(recall());
            }
            None => lose(site, half.map_or(0, |half| waiting(&*half))),
        }
        self.forget(2 * queue);
    }

    /// Returns the chains that a stopped queue has to the guest.
    fn release(&self, queue: usize, half: Option<TransmitHalf>, guest: Option<&Guest>) {
        if let Some(guest) = guest {
            let release = || -> Result<(), Kept> {
                let Some(owner) = guest.site.detach_receive(guest.queue)? else { return Ok(()) };
                if let (Some(sender), Some(chains)) = (half.as_ref().and_then(|half| half.zero_copy()), owner.chains())
                {
                    sender.recall(&mut |id| chains.release(id));
                }
                owner.recycle();
                guest.site.attach_receive(guest.queue, owner)
            };
            guest.site.end_session_if(release());
        }
        self.forget(2 * queue + 1);
    }

    /// Lets the physical queues reach the memory of the present guests, and restarts the `rested` ones.
    pub(super) fn join(&self, state: &mut State, mut rested: Vec<usize>) {
        if state.filler.is_stuck() {
            return;
        }
        let mut memories: Vec<Arc<Memory>> = Vec::new();
        for guest in state.guests.iter().flatten() {
            if !is_among(&memories, &guest.memory) {
                memories.push(guest.memory.clone());
            }
        }
        let Some(Physical { site, port, .. }) = state.filler.physical() else { return };
        // The packets of an aggregate need separate buffers: if all were on loan to receive aggregates, none would be left.
        let aggregates = site.aggregates();
        let macs = match &state.verdict {
            Verdict::Steered(macs) if !aggregates => Some(macs.clone()),
            _ => None,
        };
        if port.rests_to_share(&memories, macs.as_deref()) {
            // All queues of the port, which may have more than the mapping.
            let all = 0..2 * site.queues().max(self.queues.len());
            let others = all.filter(|index| !rested.contains(index)).collect();
            rested.extend(self.rest(state, others));
        }
        if state.filler.is_stuck() {
            return;
        }
        let Some(Physical { site, port, refused }) = state.filler.physical() else { return };
        let shared = port.share(&memories, macs.as_deref());
        *refused = shared.clone().err();
        let lends = shared.is_ok() && !aggregates && !matches!(state.verdict, Verdict::Copied(_));
        if let Err(why) = &shared {
            tracing::warn!("port \"{}\" copies: {why}", site.name());
        }
        // A queue restarts, so that all frames after that are in buffers of one kind.
        let takes = |state: &State, queue: usize| lends && state.guests[2 * queue].is_some();
        let sends = |state: &State, queue: usize| {
            state.guests[2 * queue + 1].as_ref().filter(|_| shared.is_ok()).map_or(0, |guest| guest.id)
        };
        for (queue, mapped) in self.queues.iter().enumerate() {
            let changed =
                [mapped.is_reachable() != takes(state, queue), mapped.in_place_from() != 0 && sends(state, queue) == 0];
            for index in [2 * queue, 2 * queue + 1] {
                if changed[index % 2] && !rested.contains(&index) {
                    rested.extend(self.rest(state, vec![index]));
                }
            }
        }
        if state.filler.is_stuck() {
            return;
        }
        for (queue, mapped) in self.queues.iter().enumerate() {
            mapped.set_reachable(takes(state, queue));
            mapped.set_in_place_from(sends(state, queue));
        }
        let Some(Physical { site, port, .. }) = state.filler.physical() else { return };
        rested.iter().for_each(|&index| start(&**site, &mut **port, index));
    }
}

/// A physical queue's half that was taken from its worker.
enum Stopped {
    Receive(Option<ReceiveHalf>),
    Transmit(Option<TransmitHalf>),
}

/// Counts received frames that are lost.
fn lose(site: &dyn Site, frames: u64) {
    if frames > 0 {
        site.drops().add(Reason::Down, frames);
    }
}

/// Restarts a stopped queue.
fn start(site: &dyn Site, port: &mut dyn ZeroCopyPort, index: usize) {
    let (queue, receives) = (index / 2, index.is_multiple_of(2));
    let attached = |attached: Result<(), Kept>| attached.map_err(|why| why.to_string());
    let started = if receives {
        let half = port.start_receive(queue);
        half.and_then(|half| attached(site.attach_receive(queue, half)))
    } else {
        let half = port.start_transmit(queue);
        half.and_then(|half| attached(site.attach_transmit(queue, half)))
    };
    if let Err(why) = started {
        let does = if receives { "receive" } else { "send" };
        tracing::error!("port \"{}\": queue {queue} does not {does} again: {why}", site.name());
        port.fail();
    }
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
