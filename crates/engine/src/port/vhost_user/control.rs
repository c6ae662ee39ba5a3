//! A vhost-user port, driven by its session: queues come up and go down.

use super::{Call, Settings, VhostReceive, VhostTransmit};
use crate::port::kind::{Kind, PathUse, Queues};
use crate::port::offloads::Chosen;
use crate::port::zero_copy::{Direction, Guest, GuestEnd};
use crate::port::{ExchangeMember, ExchangePart, MAX_QUEUES, Opened, PortControl, Site};
use packet::offload::Offloads;
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use vhost_user::backend::{self, Holes, Options, QueueSetup, Service, Wire};
use vhost_user::{Listener, Mode, SharedObject, claim};
use virtqueue::device::{Dequeue, Enqueue};
use virtqueue::exchange::Seat;
use virtqueue::memory::Memory;
use virtqueue::{QueueConfig, SetupError, features};

/// Weight of a restart of a mapped queue, in restarts of any other.
const MAPPED: u32 = 16;

impl Kind for Settings {
    fn queues(&self) -> Queues {
        self.queues.map_or(Queues::Asked, Queues::Fixed)
    }

    fn paths(&self) -> Vec<(PathUse, &Path)> {
        // Connecting needs no permission.
        (self.mode == Mode::Server).then_some((PathUse::Listen, &*self.socket)).into_iter().collect()
    }

    fn keeps_memory(&self) -> Result<(), &'static str> {
        match self.holes {
            Holes::Allow => Err("has a guest whose pages come and go (holes = \"allow\")"),
            Holes::Fill | Holes::Refuse => Ok(()),
        }
    }

    /// Creates a socket that has an owner or group: a confined switch cannot change ownership.
    fn claim(&self) -> Result<(), String> {
        if self.mode == Mode::Server && self.access.is_given() {
            claim(&self.socket, &self.access).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String> {
        Backend::spawn(self, site).map(Opened::by)
    }
}

/// The backend of an open port, which serves frontends.
struct Backend {
    service: Service,
    port: Arc<VhostPort>,
}

impl Backend {
    fn spawn(settings: &Settings, site: &Arc<dyn Site>) -> Result<Backend, String> {
        let Settings { socket, mode, access, queues, mtu, offers, offloads, any_memory, holes } = settings;
        let mut chosen = Chosen::new(&**site, *offloads);
        if *offers == 1 && offloads.is_none() {
            chosen = chosen.limited(Offloads::NONE, "the first version of what guests are offered has none");
        }
        site.set_offloads(chosen.stats());
        // Lent buffers come back in another order than they were posted in.
        let withheld = if site.is_mapped() { features::IN_ORDER } else { 0 };
        let options = Options {
            socket: socket.clone(),
            mode: *mode,
            access: *access,
            queue_pairs: queues.unwrap_or(MAX_QUEUES),
            mtu: *mtu,
            offers: *offers,
            offloads: chosen.offloads,
            any_memory: *any_memory,
            holes: *holes,
            withheld,
            exchange: site.exchange().and_then(ExchangeMember::offered),
        };
        let port = Arc::new(VhostPort::new(site.clone()));
        let service = Service::spawn(options, port.clone()).map_err(|e| e.to_string())?;
        let hangup = service.hangup();
        site.set_disconnect(Box::new(move || hangup.disconnect()));
        Ok(Backend { service, port })
    }
}

/// Returns a file in memory with this content.
fn memory_file(content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("millrace", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
}

impl PortControl for Backend {
    fn outlives_sessions(&self) -> bool {
        true
    }

    fn is_connected(&self) -> bool {
        self.port.is_connected.load(Ordering::Relaxed)
    }

    fn listener(&self) -> Option<Arc<Listener>> {
        self.service.listener().cloned()
    }
}

/// A vhost-user port, as its session sees it.
struct VhostPort {
    site: Arc<dyn Site>,
    /// Running queues by index, and their call descriptors.
    running: Mutex<BTreeMap<usize, Call>>,
    detail: Mutex<String>,
    is_connected: AtomicBool,
    /// The function's place in its group, if it has joined.
    seat: Mutex<Option<Arc<Seat>>>,
}

impl VhostPort {
    fn new(site: Arc<dyn Site>) -> VhostPort {
        site.set_state(false, "no guest is connected".into());
        VhostPort {
            site,
            running: Mutex::default(),
            detail: Mutex::default(),
            is_connected: AtomicBool::new(false),
            seat: Mutex::default(),
        }
    }

    /// Returns how a queue takes part in an exchange, if its function does.
    fn part(&self, memory: &Arc<Memory>, config: &QueueConfig) -> Option<ExchangePart> {
        let place = self.site.exchange().filter(|_| config.negotiated.has(features::EXCHANGE))?;
        place.part(self.seat.lock().unwrap().as_ref(), memory)
    }

    fn update(&self) {
        let running = self.running.lock().unwrap();
        // Frames pass once a pair of queues runs.
        let up = running.keys().any(|i| i % 2 == 0) && running.keys().any(|i| i % 2 == 1);
        self.site.set_state(up, self.detail.lock().unwrap().clone());
    }
}

impl backend::Queues for VhostPort {
    fn connected(&self) {
        self.site.fault().clear();
        self.is_connected.store(true, Ordering::Relaxed);
        *self.detail.lock().unwrap() = "connected".into();
        self.update();
    }

    fn start(&self, index: usize, setup: QueueSetup) -> Result<(), SetupError> {
        let QueueSetup { memory, config, kick, call } = setup;
        let queue = index / 2;
        let call = Call::new(call);
        let called = call.clone();
        let (fault, drops) = (self.site.fault().clone(), self.site.drops().clone());
        self.site.fault().watch(&memory);
        if index.is_multiple_of(2) {
            let mut ring = Enqueue::new(memory.clone(), &config)?;
            match self.part(&memory, &config) {
                Some(ExchangePart::Group(joined)) => ring.allow_exchange(joined),
                Some(ExchangePart::Pages(member)) => ring.allow_pages(member),
                None => {}
            }
            #[cfg(feature = "analysis")]
            let ring = if self.site.analysis().omit_copies { ring.without_copies() } else { ring };
            let half = VhostTransmit::new(ring, call, fault, drops);
            let attached = self.site.attach_transmit(queue, Box::new(half));
            self.site.end_session_if(attached);
            if let Some(mapping) = self.site.guest_end(queue) {
                mapping.guest_up(Direction::ToGuest, Guest { site: self.site.clone(), memory, id: 0 });
            }
        } else {
            let mut ring = Dequeue::new(memory.clone(), &config)?;
            let keeps = self.site.guest_end(queue).is_some();
            #[cfg(feature = "analysis")]
            let keeps = keeps && !self.site.analysis().copied;
            if keeps {
                ring.allow_keeping();
            }
            match self.part(&memory, &config) {
                Some(ExchangePart::Group(joined)) => ring.allow_exchange(joined),
                Some(ExchangePart::Pages(member)) => ring.allow_pages(&member),
                None => {}
            }
            let id = ring.id();
            let half = VhostReceive::new(ring, kick, call, fault, drops);
            let attached = self.site.attach_receive(queue, Box::new(half));
            self.site.end_session_if(attached);
            if let Some(mapping) = self.site.guest_end(queue) {
                mapping.guest_up(Direction::FromGuest, Guest { site: self.site.clone(), memory, id });
            }
        }
        self.running.lock().unwrap().insert(index, called);
        self.update();
        Ok(())
    }

    fn stop(&self, index: usize) -> Result<Option<u32>, String> {
        let queue = index / 2;
        self.running.lock().unwrap().remove(&index);
        self.update();
        let (site, mapping) = (&*self.site, self.site.guest_end(queue));
        let base = if index.is_multiple_of(2) {
            let down = |mapping: &dyn GuestEnd| mapping.guest_receive_down(site);
            mapping
                .map_or_else(|| site.detach_transmit(queue), down)
                .map(|half| half.and_then(|mut half| half.life_cycle()?.base()))
        } else {
            let down = |mapping: &dyn GuestEnd| mapping.guest_transmit_down(site);
            mapping
                .map_or_else(|| site.detach_receive(queue), down)
                .map(|half| half.and_then(|mut half| half.life_cycle()?.base()))
        };
        base.map_err(|why| why.to_string())
    }

    fn rewire(&self, index: usize, wire: Wire) -> Result<(), Wire> {
        match wire {
            Wire::Call(fd) => {
                self.running.lock().unwrap().get(&index).into_iter().for_each(|call| call.set(fd.clone()));
            }
            // No worker waits for a guest to post buffers.
            Wire::Kick(_) if index.is_multiple_of(2) => {}
            Wire::Kick(fd) => self.site.end_session_if(self.site.rewire(index / 2, fd)),
        }
        Ok(())
    }

    fn weight(&self) -> u32 {
        // A mapped queue stops a queue of the physical port, which others may share.
        if self.site.is_mapped() { MAPPED } else { 1 }
    }

    fn shared_object(&self, object: SharedObject) -> Result<OwnedFd, String> {
        let place = self
            .site
            .exchange()
            .ok_or("the port is in no [[exchange]], nor has its `group` other ports that it reaches")?;
        let mut own = self.seat.lock().unwrap();
        let failed = |error: io::Error| format!("cannot share a file: {error}");
        match object {
            SharedObject::Grant { token, wanted } => {
                let (seat, grant) = place.join(token, wanted)?;
                *own = Some(seat);
                memory_file(&grant.encode()).map_err(failed)
            }
            SharedObject::Memory => {
                let seat = own.as_ref().ok_or("the function has not joined the group")?;
                seat.group().file().try_clone().map_err(failed)
            }
        }
    }

    fn disconnected(&self, reason: &str) {
        self.is_connected.store(false, Ordering::Relaxed);
        *self.seat.lock().unwrap() = None;
        *self.detail.lock().unwrap() = format!("no guest is connected; the last one left: {reason}");
        self.update();
    }

    fn describe(&self, line: String) {
        *self.detail.lock().unwrap() = line;
        self.update();
    }
}
