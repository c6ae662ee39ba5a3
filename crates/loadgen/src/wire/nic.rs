//! A virtio NIC: the device side of a vhost-user socket.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use vhost_user::Mode;
use vhost_user::backend::{Error, Options, QueueSetup, Queues, Service};
use virtqueue::device::{Dequeue, Enqueue};
use virtqueue::{SetupError, ordering};

/// A ring, and the call of its driver.
struct Running<Q>(Q, Option<vhost_user::Event>);

/// The rings while they run. The session's thread removes them between two turns.
#[derive(Default)]
pub struct NicRings {
    to: Option<Running<Enqueue>>,
    from: Option<Running<Dequeue>>,
}

impl NicRings {
    /// Creates rings whose driver polls and needs no notification.
    pub fn of(to: Enqueue, from: Dequeue) -> NicRings {
        to.set_kicks(false);
        from.set_kicks(false);
        NicRings { to: Some(Running(to, None)), from: Some(Running(from, None)) }
    }

    /// Returns the ring to the driver and the one from it, if both run.
    #[inline(always)]
    pub fn both(&self) -> Option<(&Enqueue, &Dequeue)> {
        Some((&self.to.as_ref()?.0, &self.from.as_ref()?.0))
    }
}

/// The rings of each queue pair.
struct NicQueues(Box<[Mutex<NicRings>]>);

impl Queues for NicQueues {
    fn connected(&self) {}

    fn start(&self, index: usize, setup: QueueSetup) -> Result<(), SetupError> {
        let mut rings = self.0[index / 2].lock().unwrap();
        if index.is_multiple_of(2) {
            let ring = Enqueue::new(setup.memory, &setup.config)?;
            ring.set_kicks(false);
            rings.to = Some(Running(ring, setup.call));
        } else {
            let ring = Dequeue::new(setup.memory, &setup.config)?;
            ring.set_kicks(false);
            rings.from = Some(Running(ring, setup.call));
        }
        Ok(())
    }

    fn stop(&self, index: usize) -> Result<Option<u32>, String> {
        let mut rings = self.0[index / 2].lock().unwrap();
        let from = index % 2 == 1;
        Ok(if from { rings.from.take().map(|q| q.0.base()) } else { rings.to.take().map(|q| q.0.base()) })
    }

    fn disconnected(&self, _: &str) {}

    fn describe(&self, _: String) {}
}

/// A NIC.
pub struct Nic {
    queues: Arc<NicQueues>,
    _service: Option<Service>,
}

impl Nic {
    /// Creates a NIC with this many queue pairs at `socket`, which is created.
    pub fn serve(socket: &Path, queue_pairs: u16) -> Result<Nic, Error> {
        let queues = Arc::new(NicQueues((0..queue_pairs).map(|_| Mutex::default()).collect()));
        let service = Service::spawn(Options::new(socket, Mode::Server, queue_pairs), queues.clone())?;
        Ok(Nic { queues, _service: Some(service) })
    }

    /// Creates a NIC whose driver is in this process.
    pub fn of(rings: NicRings) -> Nic {
        Nic { queues: Arc::new(NicQueues([Mutex::new(rings)].into())), _service: None }
    }

    /// Returns the number of its queue pairs.
    pub fn pairs(&self) -> usize {
        self.queues.0.len()
    }

    /// Returns the rings of a queue pair, for one turn.
    #[inline(always)]
    pub fn rings(&self, pair: usize) -> MutexGuard<'_, NicRings> {
        self.queues.0[pair].lock().unwrap()
    }

    /// Notifies the driver of a queue pair if it sleeps.
    pub fn notify(&self, pair: usize) {
        let rings = self.rings(pair);
        ordering::before_asking();
        let to = rings.to.as_ref().filter(|r| r.0.wants_notification()).and_then(|r| r.1.as_ref());
        let from = rings.from.as_ref().filter(|r| r.0.wants_notification()).and_then(|r| r.1.as_ref());
        [to, from].into_iter().flatten().for_each(|call| call.notify());
    }
}
