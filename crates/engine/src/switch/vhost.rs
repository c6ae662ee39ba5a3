//! A vhost-user port, driven by its session: queues come up and go down.

use super::fabric::{Fabric, Kept};
use super::mapping::Guest;
use super::shared::PortShared;
use crate::port::vhost_user::{Call, VhostReceive, VhostTransmit};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use vhost_user::backend::{QueueSetup, Queues, Wire};
use virtqueue::SetupError;
use virtqueue::device::{Dequeue, Enqueue};

/// Weight of a restart of a mapped queue, in restarts of any other.
const MAPPED: u32 = 16;

/// A vhost-user port, as its session sees it.
pub(super) struct VhostPort {
    shared: Arc<PortShared>,
    fabric: Arc<Fabric>,
    /// Running queues by index, and their call descriptors.
    running: Mutex<BTreeMap<usize, Call>>,
    detail: Mutex<String>,
}

impl VhostPort {
    pub(super) fn new(shared: Arc<PortShared>, fabric: Arc<Fabric>) -> VhostPort {
        shared.set_state(false, "no guest is connected");
        VhostPort { shared, fabric, running: Mutex::default(), detail: Mutex::default() }
    }

    fn update(&self) {
        let running = self.running.lock().unwrap();
        // Frames pass once a pair of queues runs.
        let up = running.keys().any(|i| i % 2 == 0) && running.keys().any(|i| i % 2 == 1);
        self.shared.set_state(up, self.detail.lock().unwrap().clone());
    }

    /// Ends the session if a worker did not take a queue or a change.
    fn end_if(&self, done: Result<(), Kept>) {
        done.err().into_iter().for_each(|why| self.shared.fault.withhold(why.to_string()));
    }
}

impl Queues for VhostPort {
    fn connected(&self) {
        self.shared.fault.clear();
        *self.detail.lock().unwrap() = "connected".into();
        self.update();
    }

    fn start(&self, index: usize, setup: QueueSetup) -> Result<(), SetupError> {
        let QueueSetup { memory, config, kick, call } = setup;
        let key = (self.shared.id, index / 2);
        let call = Call::new(call);
        let called = call.clone();
        let (fault, drops) = (self.shared.fault.clone(), self.shared.drops.clone());
        self.shared.fault.watch(&memory);
        if index.is_multiple_of(2) {
            let mut ring = Enqueue::new(memory.clone(), &config)?;
            if self.shared.analysis().omit_copies {
                ring.omit_copies();
            }
            let half = VhostTransmit::new(ring, call, fault, drops);
            let attached = self.fabric.attach_transmit(key, Box::new(half));
            self.end_if(attached);
            if let Some(mapping) = self.shared.mapping() {
                mapping.guest_up(index, Guest::new(key, memory, 0, self.shared.fault.clone()));
            }
        } else {
            let mut ring = Dequeue::new(memory.clone(), &config)?;
            if self.shared.mapping().is_some() && !self.shared.analysis().copied {
                ring.allow_keeping();
            }
            let keeper = ring.lender();
            let half = VhostReceive::new(ring, kick, call, fault, drops);
            let attached = self.fabric.attach_receive(key, Box::new(half));
            self.end_if(attached);
            if let Some(mapping) = self.shared.mapping() {
                mapping.guest_up(index, Guest::new(key, memory, keeper, self.shared.fault.clone()));
            }
        }
        self.running.lock().unwrap().insert(index, called);
        self.update();
        Ok(())
    }

    fn stop(&self, index: usize) -> Result<Option<u32>, String> {
        let key = (self.shared.id, index / 2);
        self.running.lock().unwrap().remove(&index);
        self.update();
        let mapping = self.shared.mapping();
        Ok(if index.is_multiple_of(2) {
            let half = match mapping {
                None => self.fabric.detach_transmit(key).map_err(|why| why.to_string()),
                Some(mapping) => mapping.guest_receive_down(index / 2, key),
            };
            half?.and_then(|half| half.base())
        } else {
            let half = match mapping {
                None => self.fabric.detach_receive(key).map_err(|why| why.to_string()),
                Some(mapping) => mapping.guest_transmit_down(index / 2, key),
            };
            half?.and_then(|half| half.base())
        })
    }

    fn rewire(&self, index: usize, wire: Wire) -> Result<(), Wire> {
        match wire {
            Wire::Call(fd) => {
                self.running.lock().unwrap().get(&index).into_iter().for_each(|call| call.set(fd.clone()));
            }
            // Nobody waits for a guest to post buffers.
            Wire::Kick(_) if index.is_multiple_of(2) => {}
            Wire::Kick(fd) => self.end_if(self.fabric.rewire((self.shared.id, index / 2), fd)),
        }
        Ok(())
    }

    fn weight(&self) -> u32 {
        // A mapped queue stops a queue of the physical port, which others may share.
        if self.shared.mapping().is_some() { MAPPED } else { 1 }
    }

    fn disconnected(&self, reason: &str) {
        *self.detail.lock().unwrap() = format!("no guest is connected; the last one left: {reason}");
        self.update();
    }

    fn describe(&self, line: String) {
        *self.detail.lock().unwrap() = line;
        self.update();
    }
}
