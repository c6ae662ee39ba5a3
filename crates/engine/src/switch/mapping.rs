//! Mappings: which guest's buffers the queues of a physical port receive into, and since when.
//!
//! Both ends come and go. Buffers are lent while both are there; before either changes, the physical queue is stopped,
//! so that nothing fills them any more, and they go back to the guest. This is the one way in which a mapping ends.

use super::fabric::{Fabric, QueueKey, ReceiveHalf, TransmitHalf};
use super::shared::PortShared;
use crate::drops::Reason;
use crate::port::Receive;
use crate::port::lend::Mapped;
use crate::port::vhost_user::VhostTransmit;
use crate::spec::MappingSpec;
use crate::stats::MappingStats;
use std::sync::{Arc, Mutex, MutexGuard};
use virtqueue::BurstStorage;
use virtqueue::memory::Memory;

/// The control side of a physical port that can receive into buffers of others. Queues go by vhost-user's index: of a
/// pair, the even one receives.
pub(super) trait Physical: Send {
    /// Stopping one queue of a pair stops the other one, too.
    fn is_coupled(&self) -> bool {
        false
    }
    /// [`Physical::share`] with these memories needs all queues stopped.
    fn rests_to_share(&self, _memories: &[Arc<Memory>]) -> bool {
        false
    }
    /// Lets whatever fills the queues write to `memories`, and to no other memory of guests.
    fn share(&mut self, memories: &[Arc<Memory>]) -> Result<(), String>;
    /// Stops a queue whose half has stopped. Nothing fills or reads its buffers any more when this returns.
    fn stop(&mut self, index: usize) -> Result<(), String>;
    /// Starts a stopped receive queue again, with buffers of the switch.
    fn start_receive(&mut self, queue: usize) -> Result<ReceiveHalf, String>;
    /// As [`Physical::start_receive`].
    fn start_transmit(&mut self, queue: usize) -> Result<TransmitHalf, String>;
}

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
    /// Why there is no mapping, if both ends are there.
    refused: Option<String>,
}

#[derive(Clone)]
struct Guest {
    key: QueueKey,
    memory: Arc<Memory>,
    /// Of a transmit queue: [`virtqueue::device::Dequeue::lender`].
    keeper: u64,
}

impl Mapping {
    pub(super) fn new(spec: MappingSpec, queues: usize, fabric: Arc<Fabric>) -> Mapping {
        let mapped = || Arc::new(Mapped::new(spec.pass_through));
        let state = State { physical: None, guests: vec![None; 2 * queues], refused: None };
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

    /// The physical port is there; its halves are attached.
    pub(super) fn physical_up(&self, port: Arc<PortShared>, physical: Box<dyn Physical>) {
        let mut state = self.state();
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

    /// The guest has started a queue, by vhost-user's index; its half is attached. `keeper` is a transmit queue's
    /// [`virtqueue::device::Dequeue::lender`].
    pub(super) fn guest_up(&self, index: usize, key: QueueKey, memory: Arc<Memory>, keeper: u64) {
        let mut state = self.state();
        if let Some(guest) = state.guests.get_mut(index) {
            *guest = Some(Guest { key, memory, keeper });
            self.join(&mut state, Vec::new());
        }
    }

    /// The guest stops a receive queue. Its half comes back with all that was lent.
    pub(super) fn guest_receive_down(&self, queue: usize, key: QueueKey) -> Option<TransmitHalf> {
        let mut state = self.state();
        let rested = self.part(&mut state, 2 * queue);
        let lender = self.fabric.detach_transmit(key);
        if !rested.is_empty() {
            lender.iter().filter_map(|lender| lender.guest()).for_each(VhostTransmit::close);
        }
        self.join(&mut state, rested);
        lender
    }

    /// The guest stops a transmit queue. Its half comes back with all that was kept.
    pub(super) fn guest_transmit_down(&self, queue: usize, key: QueueKey) -> Option<ReceiveHalf> {
        let mut state = self.state();
        let rested = self.part(&mut state, 2 * queue + 1);
        let owner = self.fabric.detach_receive(key);
        self.join(&mut state, rested);
        owner
    }

    /// Takes a queue of the guest, which goes, from the physical port if that may have buffers of it. Returns what rests
    /// because of that.
    fn part(&self, state: &mut State, index: usize) -> Vec<usize> {
        let rested = if self.is_joined(index) { self.rest(state, vec![index]) } else { Vec::new() };
        state.guests.get_mut(index).map(Option::take);
        rested
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
        for &index in &indices {
            if let Err(why) = physical.stop(index) {
                tracing::warn!("port \"{}\": queue {} could not be stopped: {why}", port.name, index / 2);
            }
        }
        for (index, half) in halves {
            // A port may have more queues than the mapping.
            let guest = state.guests.get(index).and_then(Option::as_ref).filter(|_| self.is_joined(index));
            match half {
                Stopped::Receive(half) => self.recall(index / 2, half, guest, port),
                Stopped::Transmit(half) => self.release(index / 2, half, guest),
            }
        }
        indices
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
        self.queues.get(queue).inspect(|mapped| mapped.set_reachable(false));
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
        self.queues.get(queue).inspect(|mapped| mapped.set_keeper(0));
    }

    /// Lets the physical queues reach the memory of the guests that are there, and starts those again that rest.
    fn join(&self, state: &mut State, mut rested: Vec<usize>) {
        let mut memories: Vec<Arc<Memory>> = Vec::new();
        for guest in state.guests.iter().flatten() {
            if !memories.iter().any(|known| Arc::ptr_eq(known, &guest.memory)) {
                memories.push(guest.memory.clone());
            }
        }
        let Some((port, physical)) = &mut state.physical else { return };
        if physical.rests_to_share(&memories) {
            // Of ports with more queues than the mapping, all.
            let all = 0..2 * port.queues.len().max(self.queues.len());
            let others = all.filter(|index| !rested.contains(index)).collect();
            rested.extend(self.rest(state, others));
        }
        let Some((port, physical)) = &mut state.physical else { return };
        let shared = physical.share(&memories);
        // The packets of an aggregate need buffers of their own: were they all out to receive aggregates, none were left.
        let lends = shared.is_ok() && port.member().is_none();
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
            state.refused.clone().or_else(|| lends(queue).err()).or_else(|| self.queues[queue].why_none())
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
            })
            .collect()
    }
}

/// A physical queue's half that no worker has any more.
enum Stopped {
    Receive(Option<ReceiveHalf>),
    Transmit(Option<TransmitHalf>),
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
