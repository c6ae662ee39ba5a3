//! Mappings: which guest's buffers the queues of a physical port receive into, and since when.
//!
//! Both ends come and go. Buffers are lent while both are there; before either changes, the physical queue is stopped,
//! so that nothing fills them any more, and they go back to the guest. This is the one way in which a mapping ends.
//!
//! A queue that does not stop is the exception: what it may still fill never goes back. The guest's session ends, so that
//! the guest knows that its device is gone, and its memory stays until the physical port could be opened again.

#[cfg(test)]
mod tests;

use super::fabric::{Fabric, QueueKey, ReceiveHalf, TransmitHalf};
use super::physical::Physical;
use super::shared::PortShared;
use super::tenancy::Verdict;
use crate::drops::Reason;
use crate::port::lend::Mapped;
use crate::port::vhost_user::{Fault, VhostTransmit};
use crate::port::{Receive, copy_break};
use crate::spec::MappingSpec;
use crate::stats::MappingStats;
use std::sync::{Arc, Mutex, MutexGuard};
use virtqueue::BurstStorage;
use virtqueue::memory::Memory;

/// One mapping of a specification.
pub(super) struct Mapping {
    spec: MappingSpec,
    fabric: Arc<Fabric>,
    /// What the queues' halves know of it, by queue pair.
    queues: Vec<Arc<Mapped>>,
    state: Mutex<State>,
}

/// Locked before the fabric is.
struct State {
    physical: Option<(Arc<PortShared>, Box<dyn Physical>)>,
    /// The guest's queues that run, by vhost-user's index.
    guests: Vec<Option<Guest>>,
    verdict: Verdict,
    /// Why there is no mapping, if both ends are there.
    refused: Option<String>,
    /// Memories that queues may still fill that did not stop. While there are any, the physical port is of no use.
    withheld: Vec<Arc<Memory>>,
}

impl Drop for State {
    fn drop(&mut self) {
        // Nobody is left to learn when it can be had back: better lost than given to somebody else.
        self.withheld.drain(..).for_each(std::mem::forget);
    }
}

/// A queue of the guest that runs.
#[derive(Clone)]
pub(super) struct Guest {
    key: QueueKey,
    memory: Arc<Memory>,
    /// Of a transmit queue: [`virtqueue::device::Dequeue::lender`].
    keeper: u64,
    /// Ends the session.
    fault: Arc<Fault>,
}

impl Guest {
    pub(super) fn new(key: QueueKey, memory: Arc<Memory>, keeper: u64, fault: Arc<Fault>) -> Guest {
        Guest { key, memory, keeper, fault }
    }
}

impl Mapping {
    pub(super) fn new(spec: MappingSpec, verdict: Verdict, queues: usize, fabric: Arc<Fabric>) -> Mapping {
        let copy_break = spec.copy_break.unwrap_or_else(copy_break::measured);
        let mapped = || Arc::new(Mapped::new(spec.pass_through, copy_break));
        let guests = vec![None; 2 * queues];
        let state = State { physical: None, guests, verdict, refused: None, withheld: Vec::new() };
        Mapping { queues: (0..queues).map(|_| mapped()).collect(), spec, fabric, state: Mutex::new(state) }
    }

    pub(super) fn spec(&self) -> &MappingSpec {
        &self.spec
    }

    /// Says by how many bytes frames grow on their way to the guest.
    pub(super) fn expect_growth(&self, bytes: i32) {
        self.queues.iter().for_each(|mapped| mapped.set_growth(bytes));
    }

    /// What the half of `queue` has to know.
    pub(super) fn queue(&self, queue: usize) -> Option<Arc<Mapped>> {
        self.queues.get(queue).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Frames are to be received so from now on.
    pub(super) fn review(&self, verdict: Verdict) {
        let mut state = self.state();
        if state.verdict != verdict {
            state.verdict = verdict;
            self.join(&mut state, Vec::new());
        }
    }

    /// Does `change`, after which halves of either end may lend or borrow that did not before, or no longer: nothing is lent
    /// meanwhile, and the queues that were in it start afresh.
    pub(super) fn at_rest(&self, change: impl FnOnce()) {
        let mut state = self.state();
        let joined = (0..state.guests.len()).filter(|&index| self.is_joined(index)).collect();
        let rested = self.rest(&mut state, joined);
        change();
        self.join(&mut state, rested);
    }

    /// The physical port is there; its halves are attached.
    pub(super) fn physical_up(&self, port: Arc<PortShared>, physical: Box<dyn Physical>) {
        let mut state = self.state();
        // Its queues could be had: whoever was still at one has let go of it.
        state.withheld.clear();
        state.physical = Some((port, physical));
        self.join(&mut state, Vec::new());
    }

    /// The physical port has gone, or is to go: nothing fills or reads its buffers.
    pub(super) fn physical_down(&self) {
        let mut state = self.state();
        let joined = (0..state.guests.len()).filter(|&index| self.is_joined(index)).collect();
        self.rest(&mut state, joined);
        state.physical = None;
    }

    /// The guest has started a queue, by vhost-user's index; its half is attached.
    pub(super) fn guest_up(&self, index: usize, guest: Guest) {
        let mut state = self.state();
        if let Some(known) = state.guests.get_mut(index) {
            *known = Some(guest);
            self.join(&mut state, Vec::new());
        }
    }

    /// The guest stops a receive queue. Its half comes back with all that was lent, or there is an error.
    pub(super) fn guest_receive_down(&self, queue: usize, key: QueueKey) -> Result<Option<TransmitHalf>, String> {
        let mut state = self.state();
        let (rested, whole) = self.part(&mut state, 2 * queue);
        let lender = self.fabric.detach_transmit(key);
        if !rested.is_empty() && whole.is_ok() {
            lender.iter().filter_map(|lender| lender.guest()).for_each(VhostTransmit::close);
        }
        self.join(&mut state, rested);
        whole.map(|()| lender)
    }

    /// The guest stops a transmit queue. Its half comes back with all that was kept, or there is an error.
    pub(super) fn guest_transmit_down(&self, queue: usize, key: QueueKey) -> Result<Option<ReceiveHalf>, String> {
        let mut state = self.state();
        let (rested, whole) = self.part(&mut state, 2 * queue + 1);
        let owner = self.fabric.detach_receive(key);
        self.join(&mut state, rested);
        whole.map(|()| owner)
    }

    /// Takes a queue of the guest, which goes, from the physical port if that may have buffers of it. Returns what rests
    /// because of that, and whether nobody has any buffer of the guest's memory.
    fn part(&self, state: &mut State, index: usize) -> (Vec<usize>, Result<(), String>) {
        let rested = if self.is_joined(index) { self.rest(state, vec![index]) } else { Vec::new() };
        let guest = state.guests.get_mut(index).and_then(Option::take);
        let withheld = guest.is_some_and(|guest| is_among(&state.withheld, &guest.memory));
        let whole =
            if withheld { Err(format!("\"{}\" has not let go of its buffers", self.spec.from)) } else { Ok(()) };
        (rested, whole)
    }

    /// Buffers of the guest's queue may be out.
    fn is_joined(&self, index: usize) -> bool {
        let Some(mapped) = self.queues.get(index / 2) else { return false };
        if index.is_multiple_of(2) { mapped.is_reachable() } else { mapped.keeper() != 0 }
    }

    /// Stops physical queues, and gives the guest what it had lent to them. Returns all queues that rest now.
    fn rest(&self, state: &mut State, mut indices: Vec<usize>) -> Vec<usize> {
        let Some((port, physical)) = &mut state.physical else { return Vec::new() };
        if physical.is_coupled() {
            indices = indices.iter().flat_map(|index| [index & !1, index | 1]).collect();
            indices.sort_unstable();
            indices.dedup();
        }
        let halves: Vec<_> = indices.iter().map(|&index| (index, self.halt(port, index))).collect();
        let stopped: Vec<_> = indices.iter().map(|&index| physical.stop(index)).collect();
        for ((index, half), stopped) in halves.into_iter().zip(stopped) {
            // A port may have more queues than the mapping.
            let guest = state.guests.get(index).and_then(Option::as_ref).filter(|_| self.is_joined(index));
            if let Err(why) = stopped {
                tracing::error!("port \"{}\": queue {} could not be stopped: {why}", port.name, index / 2);
                if let Some(Guest { memory, fault, .. }) = guest {
                    fault.withhold(format!("port \"{}\" has not let go of its buffers: {why}", port.name));
                    if !is_among(&state.withheld, memory) {
                        state.withheld.push(memory.clone());
                    }
                }
                // What is out, as the half knows, is lost with the half.
                self.forget(index);
                continue;
            }
            match half {
                Stopped::Receive(half) => self.recall(index / 2, half, guest, port),
                Stopped::Transmit(half) => self.release(index / 2, half, guest),
            }
        }
        indices
    }

    /// Nothing of the guest's queue is lent from now on.
    fn forget(&self, index: usize) {
        let Some(mapped) = self.queues.get(index / 2) else { return };
        if index.is_multiple_of(2) { mapped.set_reachable(false) } else { mapped.set_keeper(0) }
    }

    /// Takes the half of a physical queue from its worker.
    fn halt(&self, port: &PortShared, index: usize) -> Stopped {
        let key = (port.id, index / 2);
        if index.is_multiple_of(2) {
            let mut half = self.fabric.detach_receive(key);
            let lost = half.as_mut().map_or(0, |half| half.stop());
            lose(port, lost);
            Stopped::Receive(half)
        } else {
            let mut half = self.fabric.detach_transmit(key);
            half.iter_mut().for_each(|half| half.stop());
            Stopped::Transmit(half)
        }
    }

    /// Gives the guest the buffers back that a stopped queue has of it.
    fn recall(&self, queue: usize, half: Option<ReceiveHalf>, guest: Option<&Guest>, port: &PortShared) {
        match guest {
            Some(guest) => {
                if let Some(lender) = self.fabric.detach_transmit(guest.key) {
                    if let (Some(lend), Some(guest)) = (half.as_ref().and_then(|half| half.lends()), lender.guest()) {
                        lose(port, lend.recall(guest));
                    }
                    self.fabric.attach_transmit(guest.key, lender);
                }
            }
            None => lose(port, half.map_or(0, |half| waiting(&*half))),
        }
        self.forget(2 * queue);
    }

    /// Gives the guest the chains back that a stopped queue has of it.
    fn release(&self, queue: usize, half: Option<TransmitHalf>, guest: Option<&Guest>) {
        if let Some(guest) = guest
            && let Some(owner) = self.fabric.detach_receive(guest.key)
        {
            half.iter().for_each(|half| half.recall(&mut |id| owner.release(id)));
            owner.recycle();
            self.fabric.attach_receive(guest.key, owner);
        }
        self.forget(2 * queue + 1);
    }

    /// Lets the physical queues reach the memory of the guests that are there, and starts those again that rest.
    fn join(&self, state: &mut State, mut rested: Vec<usize>) {
        if !state.withheld.is_empty() {
            return;
        }
        let mut memories: Vec<Arc<Memory>> = Vec::new();
        for guest in state.guests.iter().flatten() {
            if !is_among(&memories, &guest.memory) {
                memories.push(guest.memory.clone());
            }
        }
        let Some((port, physical)) = &mut state.physical else { return };
        // The packets of an aggregate need buffers of their own: were they all out to receive aggregates, none were left.
        let aggregates = port.member().is_some();
        let macs = match &state.verdict {
            Verdict::Steered(macs) if !aggregates => Some(macs.clone()),
            _ => None,
        };
        if physical.rests_to_share(&memories, macs.as_deref()) {
            // Of ports with more queues than the mapping, all.
            let all = 0..2 * port.queues.len().max(self.queues.len());
            let others = all.filter(|index| !rested.contains(index)).collect();
            rested.extend(self.rest(state, others));
        }
        if !state.withheld.is_empty() {
            return;
        }
        let Some((port, physical)) = &mut state.physical else { return };
        let shared = physical.share(&memories, macs.as_deref());
        let lends = shared.is_ok() && !aggregates && !matches!(state.verdict, Verdict::Copied(_));
        if let Err(why) = &shared {
            tracing::warn!("port \"{}\" copies: {why}", port.name);
        }
        // A queue starts afresh, so that all that comes from then on is in buffers of the one kind.
        let takes = |state: &State, queue: usize| lends && state.guests[2 * queue].is_some();
        let sends = |state: &State, queue: usize| {
            state.guests[2 * queue + 1].as_ref().filter(|_| shared.is_ok()).map_or(0, |guest| guest.keeper)
        };
        for (queue, mapped) in self.queues.iter().enumerate() {
            let changed =
                [mapped.is_reachable() != takes(state, queue), mapped.keeper() != 0 && sends(state, queue) == 0];
            for index in [2 * queue, 2 * queue + 1] {
                if changed[index % 2] && !rested.contains(&index) {
                    rested.extend(self.rest(state, vec![index]));
                }
            }
        }
        if !state.withheld.is_empty() {
            return;
        }
        for (queue, mapped) in self.queues.iter().enumerate() {
            mapped.set_reachable(takes(state, queue));
            mapped.set_keeper(sends(state, queue));
        }
        let Some((port, physical)) = &mut state.physical else { return };
        rested.iter().for_each(|&index| start(port, &self.fabric, &mut **physical, index));
        state.refused = shared.err();
    }

    /// What people are told of it, by queue. `lends` tells whether a worker can borrow from the guest's queue.
    pub(super) fn stats(&self, lends: impl Fn(usize) -> Result<(), String>) -> Vec<MappingStats> {
        let state = self.state();
        let why_not = |queue: usize| -> Option<String> {
            if state.physical.is_none() {
                return Some(format!("port \"{}\" is down", self.spec.from));
            }
            if state.guests[2 * queue].is_none() {
                return Some(format!("no guest has started queue {queue} of \"{}\"", self.spec.to));
            }
            if !state.withheld.is_empty() {
                return Some(format!("port \"{}\" has not let go of the guest's buffers", self.spec.from));
            }
            let verdict = if let Verdict::Copied(why) = &state.verdict { Some(why.clone()) } else { None };
            let refused = verdict.or_else(|| state.refused.clone());
            refused.or_else(|| lends(queue).err()).or_else(|| self.queues[queue].why_none())
        };
        let queues = self.queues.iter().enumerate();
        queues
            .map(|(queue, mapped)| MappingStats {
                from: format!("{}.{queue}", self.spec.from),
                to: format!("{}.{queue}", self.spec.to),
                mode: self.spec.mode().into(),
                zero_copy: why_not(queue).is_none(),
                reason: why_not(queue),
                on_loan: mapped.on_loan.get(),
                longest_loan_us: mapped.longest.get(),
                in_place: mapped.in_place.get(),
                elsewhere: mapped.elsewhere.get(),
                copied: mapped.copied.get(),
                sent_in_place: mapped.sent_in_place.get(),
                sent_copied: mapped.sent_copied.get(),
                copy_break: mapped.copy_break,
            })
            .collect()
    }
}

/// A physical queue's half that no worker has any more.
enum Stopped {
    Receive(Option<ReceiveHalf>),
    Transmit(Option<TransmitHalf>),
}

fn is_among(memories: &[Arc<Memory>], memory: &Arc<Memory>) -> bool {
    memories.iter().any(|known| Arc::ptr_eq(known, memory))
}

/// Counts frames that were received for nothing.
fn lose(port: &PortShared, frames: u64) {
    if frames > 0 {
        port.drops.add(Reason::Down, frames);
    }
}

/// Starts a queue that rests.
fn start(port: &PortShared, fabric: &Fabric, physical: &mut dyn Physical, index: usize) {
    let (queue, receives) = (index / 2, index.is_multiple_of(2));
    let key = (port.id, queue);
    let started = if receives {
        physical.start_receive(queue).map(|half| fabric.attach_receive(key, half))
    } else {
        physical.start_transmit(queue).map(|half| fabric.attach_transmit(key, half))
    };
    if let Err(why) = started {
        let does = if receives { "receive" } else { "send" };
        tracing::error!("port \"{}\": queue {queue} does not {does} again: {why}", port.name);
    }
}

/// Frames that a queue that has stopped received and nobody took.
fn waiting(half: &dyn Receive) -> u64 {
    let mut storage = Box::<BurstStorage>::default();
    let mut frames = 0;
    loop {
        let mut burst = storage.start();
        let any = half.receive(&mut burst);
        frames += burst.len() as u64;
        half.recycle();
        if !any {
            return frames;
        }
    }
}
