//! Mappings: which guest's buffers the queues of a physical port receive into, and since when.
//!
//! Both ends come and go. Buffers are lent while both are there; before either changes, the physical queue is stopped,
//! so that nothing fills them any more, and they go back to the guest. This is the one way in which a mapping ends.

use super::fabric::{Fabric, QueueKey, ReceiveHalf, TransmitHalf};
use super::shared::PortShared;
use crate::drops::Reason;
use crate::port::lend::Mapped;
use crate::spec::MappingSpec;
use crate::stats::MappingStats;
use std::sync::{Arc, Mutex, MutexGuard};
use virtqueue::memory::Memory;

/// The control side of a physical port that can receive into buffers of others.
pub(super) trait Physical: Send {
    /// Lets whatever fills the queues write to `memories`, and to no other memory of guests.
    fn share(&mut self, memories: &[Arc<Memory>]) -> Result<(), String>;
    /// Stops a queue: nothing fills its buffers any more when this returns.
    fn stop(&mut self, queue: usize) -> Result<(), String>;
    /// Starts a stopped queue again, with buffers of the switch.
    fn start(&mut self, queue: usize) -> Result<ReceiveHalf, String>;
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
    guests: Vec<Option<Guest>>,
    /// Why there is no mapping, if both ends are there.
    refused: Option<String>,
}

#[derive(Clone)]
struct Guest {
    key: QueueKey,
    memory: Arc<Memory>,
}

impl Mapping {
    pub(super) fn new(spec: MappingSpec, queues: usize, fabric: Arc<Fabric>) -> Mapping {
        let mapped = || Arc::new(Mapped::new(spec.pass_through));
        let state = State { physical: None, guests: vec![None; queues], refused: None };
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

    /// The physical port has gone: nothing fills its queues. Its receive halves are dropped.
    pub(super) fn physical_down(&self) {
        let mut state = self.state();
        let Some((port, mut physical)) = state.physical.take() else { return };
        for (queue, guest) in state.guests.iter().enumerate() {
            let half = self.fabric.detach_receive((port.id, queue));
            let Some(guest) = guest.as_ref().filter(|_| self.queues[queue].is_reachable()) else { continue };
            // Whoever was there to fill the buffers may not have noticed yet.
            let _ = physical.stop(queue);
            if let Some(lender) = self.fabric.detach_transmit(guest.key) {
                self.recall(queue, half, &*lender, &port);
                self.fabric.attach_transmit(guest.key, lender);
            }
        }
    }

    /// The guest has started a receive queue; its half is attached.
    pub(super) fn guest_up(&self, queue: usize, key: QueueKey, memory: Arc<Memory>) {
        let mut state = self.state();
        if let Some(guest) = state.guests.get_mut(queue) {
            *guest = Some(Guest { key, memory });
            self.join(&mut state);
        }
    }

    /// The guest stops a receive queue. Its half comes back with all that was lent.
    pub(super) fn guest_down(&self, queue: usize, key: QueueKey) -> Option<TransmitHalf> {
        let mut state = self.state();
        state.guests.get_mut(queue).and_then(Option::take);
        let was_lent = self.queues.get(queue).is_some_and(|mapped| mapped.is_reachable());
        let (Some((port, physical)), true) = (&mut state.physical, was_lent) else {
            return self.fabric.detach_transmit(key);
        };
        let port = port.clone();
        let half = self.fabric.detach_receive((port.id, queue));
        if let Err(why) = physical.stop(queue) {
            tracing::warn!("port \"{}\": queue {queue} could not be stopped: {why}", port.name);
        }
        let lender = self.fabric.detach_transmit(key);
        if let Some(lender) = &lender {
            self.recall(queue, half, &**lender, &port);
        }
        match physical.start(queue) {
            Ok(half) => self.fabric.attach_receive((port.id, queue), half),
            Err(why) => tracing::error!("port \"{}\": queue {queue} does not start again: {why}", port.name),
        }
        self.join(&mut state);
        lender
    }

    /// Gives the guest its buffers back.
    fn recall(&self, queue: usize, half: Option<ReceiveHalf>, lender: &dyn crate::port::Transmit, port: &PortShared) {
        if let (Some(lend), Some(guest)) = (half.as_ref().and_then(|half| half.lends()), lender.guest()) {
            match lend.recall(guest) {
                0 => {}
                lost => port.drops.add(Reason::Down, lost),
            }
        }
        self.queues[queue].set_reachable(false);
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
        if let Err(why) = &shared {
            tracing::warn!("port \"{}\" copies: {why}", port.name);
        }
        for (mapped, guest) in self.queues.iter().zip(&state.guests) {
            mapped.set_reachable(shared.is_ok() && guest.is_some());
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
            if state.guests[queue].is_none() {
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
            })
            .collect()
    }
}
