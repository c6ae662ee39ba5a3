//! Mappings: which guest's buffers the queues of a physical port receive into, and since when.
//!
//! Both ends come and go. Buffers are lent while both are there; before either changes, the physical queue is stopped,
//! so that nothing fills them any more, and they go back to the guest. This is the one way in which a mapping ends.

use super::fabric::{Fabric, QueueKey, ReceiveHalf, TransmitHalf};
use super::shared::PortShared;
use crate::drops::Reason;
use crate::port::lend::Mapped;
use crate::port::vhost_user::VhostTransmit;
use crate::port::{Receive, Transmit};
use crate::spec::MappingSpec;
use crate::stats::MappingStats;
use std::sync::{Arc, Mutex, MutexGuard};
use virtqueue::BurstStorage;
use virtqueue::memory::Memory;

/// The control side of a physical port that can receive into buffers of others.
pub(super) trait Physical: Send {
    /// Lets whatever fills the queues write to `memories`, and to no other memory of guests.
    fn share(&mut self, memories: &[Arc<Memory>]) -> Result<(), String>;
    /// Stops a queue, by vhost-user's index. Nothing fills or reads its buffers any more when this returns.
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
        self.join(&mut state);
    }

    /// The physical port has gone, and its halves are dropped: nothing fills or reads its buffers.
    pub(super) fn physical_down(&self) {
        let mut state = self.state();
        let Some((port, mut physical)) = state.physical.take() else { return };
        for (index, guest) in state.guests.iter().enumerate() {
            self.separate(&port, &mut *physical, index, guest.as_ref());
        }
    }

    /// Stops the physical queue and gives the guest, which stays, what it had lent to it. A port that has gone may have no
    /// one to stop any more.
    fn separate(&self, port: &PortShared, physical: &mut dyn Physical, index: usize, guest: Option<&Guest>) {
        let Some(guest) = guest.filter(|_| self.is_joined(index)) else { return };
        let (queue, key) = (index / 2, (port.id, index / 2));
        if index.is_multiple_of(2) {
            let half = self.fabric.detach_receive(key);
            let _ = physical.stop(index);
            if let Some(lender) = self.fabric.detach_transmit(guest.key) {
                self.recall(queue, half, &*lender, port);
                self.fabric.attach_transmit(guest.key, lender);
            }
        } else {
            let half = self.fabric.detach_transmit(key);
            let _ = physical.stop(index);
            if let Some(owner) = self.fabric.detach_receive(guest.key) {
                self.release(queue, half, &*owner);
                self.fabric.attach_receive(guest.key, owner);
            }
        }
    }

    /// The guest has started a queue, by vhost-user's index; its half is attached. `keeper` is a transmit queue's
    /// [`virtqueue::device::Dequeue::lender`].
    pub(super) fn guest_up(&self, index: usize, key: QueueKey, memory: Arc<Memory>, keeper: u64) {
        let mut state = self.state();
        if let Some(guest) = state.guests.get_mut(index) {
            *guest = Some(Guest { key, memory, keeper });
            self.join(&mut state);
        }
    }

    /// The guest stops a receive queue. Its half comes back with all that was lent.
    pub(super) fn guest_receive_down(&self, queue: usize, key: QueueKey) -> Option<TransmitHalf> {
        let mut state = self.state();
        let Some((port, mut physical)) = self.part(&mut state, 2 * queue) else {
            return self.fabric.detach_transmit(key);
        };
        let half = self.fabric.detach_receive((port.id, queue));
        stop(&port, &mut *physical, 2 * queue);
        let lender = self.fabric.detach_transmit(key);
        if let Some(lender) = &lender {
            self.recall(queue, half, &**lender, &port);
            lender.guest().into_iter().for_each(VhostTransmit::close);
        }
        start_receive(&port, &self.fabric, &mut *physical, queue);
        state.physical = Some((port, physical));
        self.join(&mut state);
        lender
    }

    /// The guest stops a transmit queue. Its half comes back with all that was kept.
    pub(super) fn guest_transmit_down(&self, queue: usize, key: QueueKey) -> Option<ReceiveHalf> {
        let mut state = self.state();
        let Some((port, mut physical)) = self.part(&mut state, 2 * queue + 1) else {
            return self.fabric.detach_receive(key);
        };
        let owner = self.fabric.detach_receive(key);
        let half = self.fabric.detach_transmit((port.id, queue));
        stop(&port, &mut *physical, 2 * queue + 1);
        if let Some(owner) = &owner {
            self.release(queue, half, &**owner);
        }
        start_transmit(&port, &self.fabric, &mut *physical, queue);
        state.physical = Some((port, physical));
        self.join(&mut state);
        owner
    }

    /// Forgets a queue of the guest. The physical port, if buffers of that queue may be out.
    fn part(&self, state: &mut State, index: usize) -> Option<(Arc<PortShared>, Box<dyn Physical>)> {
        state.guests.get_mut(index)?.take()?;
        if self.is_joined(index) { state.physical.take() } else { None }
    }

    /// Buffers of the guest's queue may be out.
    fn is_joined(&self, index: usize) -> bool {
        let Some(mapped) = self.queues.get(index / 2) else { return false };
        if index.is_multiple_of(2) { mapped.is_reachable() } else { mapped.keeper() != 0 }
    }

    /// Gives the guest its buffers back.
    fn recall(&self, queue: usize, half: Option<ReceiveHalf>, lender: &dyn Transmit, port: &PortShared) {
        if let (Some(lend), Some(guest)) = (half.as_ref().and_then(|half| half.lends()), lender.guest()) {
            match lend.recall(guest) {
                0 => {}
                lost => port.drops.add(Reason::Down, lost),
            }
        }
        self.queues[queue].set_reachable(false);
    }

    /// Gives the guest its chains back.
    fn release(&self, queue: usize, half: Option<TransmitHalf>, owner: &dyn Receive) {
        half.iter().for_each(|half| half.recall(&mut |id| owner.release(id)));
        owner.recycle();
        self.queues[queue].set_keeper(0);
    }

    /// Lets the physical queues reach the memory of the guests that are there.
    fn join(&self, state: &mut State) {
        let Some((port, physical)) = &mut state.physical else { return };
        let mut memories: Vec<Arc<Memory>> = Vec::new();
        for guest in state.guests.iter().flatten() {
            if !memories.iter().any(|known| Arc::ptr_eq(known, &guest.memory)) {
                memories.push(guest.memory.clone());
            }
        }
        let shared = physical.share(&memories);
        // The packets of an aggregate need buffers of their own: were they all out to receive aggregates, none were left.
        let lends = shared.is_ok() && port.member().is_none();
        if let Err(why) = &shared {
            tracing::warn!("port \"{}\" copies: {why}", port.name);
        }
        for (queue, (mapped, guest)) in self.queues.iter().zip(state.guests.chunks_exact(2)).enumerate() {
            let (takes, sends) = (guest[0].as_ref(), guest[1].as_ref());
            if shared.is_err() && self.is_joined(2 * queue + 1) {
                self.separate(port, &mut **physical, 2 * queue + 1, sends);
                start_transmit(port, &self.fabric, &mut **physical, queue);
            }
            mapped.set_keeper(sends.filter(|_| shared.is_ok()).map_or(0, |guest| guest.keeper));
            // Afresh, so that all that comes from now on is in buffers of the one kind.
            if shared.is_err() && self.is_joined(2 * queue) {
                self.separate(port, &mut **physical, 2 * queue, takes);
                start_receive(port, &self.fabric, &mut **physical, queue);
            } else if lends && takes.is_some() && !mapped.is_reachable() {
                let half = self.fabric.detach_receive((port.id, queue));
                stop(port, &mut **physical, 2 * queue);
                if let Some(lost) = half.map(|half| waiting(&*half)).filter(|&lost| lost > 0) {
                    port.drops.add(Reason::Down, lost);
                }
                mapped.set_reachable(true);
                start_receive(port, &self.fabric, &mut **physical, queue);
            }
        }
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
            state.refused.clone().or_else(|| lends(queue).err())
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

fn stop(port: &PortShared, physical: &mut dyn Physical, index: usize) {
    if let Err(why) = physical.stop(index) {
        tracing::warn!("port \"{}\": queue {} could not be stopped: {why}", port.name, index / 2);
    }
}

fn start_receive(port: &PortShared, fabric: &Fabric, physical: &mut dyn Physical, queue: usize) {
    match physical.start_receive(queue) {
        Ok(half) => fabric.attach_receive((port.id, queue), half),
        Err(why) => tracing::error!("port \"{}\": queue {queue} does not receive again: {why}", port.name),
    }
}

fn start_transmit(port: &PortShared, fabric: &Fabric, physical: &mut dyn Physical, queue: usize) {
    match physical.start_transmit(queue) {
        Ok(half) => fabric.attach_transmit((port.id, queue), half),
        Err(why) => tracing::error!("port \"{}\": queue {queue} does not send again: {why}", port.name),
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
