//! The thread that keeps a virtio-user port connected to its backend.

use super::fabric::Fabric;
use super::mapping::Physical;
use super::shared::PortShared;
use crate::port::virtio_user::{End, STRIDE, VirtioReceive, VirtioTransmit};
use crate::port::{Receive, Transmit};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use vhost_user::Mode;
use vhost_user::frontend::{FrontendOptions, Link, QueueEnd};
use virtqueue::memory::{Arena, Memory, Region};
use virtqueue::{QueueConfig, features};

/// How often the link is looked after.
const CHECK: Duration = Duration::from_millis(20);

/// What a port asks of its backend. One that is `mapped` gets every frame in one buffer.
pub(super) fn options(
    socket: &Path,
    mode: Mode,
    (queue_pairs, queue_size): (u16, u16),
    packed: bool,
    mapped: bool,
) -> FrontendOptions {
    let packed = if packed { features::RING_PACKED } else { 0 };
    let mergeable = if mapped { 0 } else { features::MRG_RXBUF };
    FrontendOptions {
        socket: socket.to_owned(),
        mode,
        queue_pairs,
        queue_size,
        features: mergeable | features::IN_ORDER | packed,
    }
}

/// Connects, reconnects, and ends when dropped.
pub(super) struct LinkThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LinkThread {
    pub(super) fn spawn(
        options: FrontendOptions,
        shared: Arc<PortShared>,
        fabric: Arc<Fabric>,
    ) -> std::io::Result<LinkThread> {
        let stop = Arc::new(AtomicBool::new(false));
        shared.set_state(false, "no backend is connected");
        let stopping = stop.clone();
        let thread = std::thread::Builder::new().name(format!("link-{}", shared.name)).spawn(move || {
            while !stopping.load(Ordering::Relaxed) {
                let why = serve(&options, &shared, &fabric, &stopping);
                shared.set_state(false, format!("no backend is connected: {why}"));
                std::thread::sleep(CHECK);
            }
        })?;
        Ok(LinkThread { stop, thread: Some(thread) })
    }
}

impl Drop for LinkThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves one connection until it ends; why it did.
fn serve(options: &FrontendOptions, shared: &Arc<PortShared>, fabric: &Fabric, stop: &AtomicBool) -> String {
    let (session, pairs) = match Session::establish(options, shared, stop) {
        Ok(established) => established,
        Err(why) => return why,
    };
    let (link, broken, count) = (session.link.clone(), session.broken.clone(), pairs.len());
    let pages = if session.arena.is_huge() { "huge pages" } else { "4 KiB pages" };
    for (queue, (receive, transmit)) in pairs.into_iter().enumerate() {
        fabric.attach_receive((shared.id, queue), shared.wrap_receive(receive));
        fabric.attach_transmit((shared.id, queue), shared.wrap_transmit(transmit));
    }
    if let Some(mapping) = shared.mapping() {
        mapping.physical_up(shared.clone(), Box::new(session));
    }
    shared.set_state(true, format!("{}, {count} queue pairs, {pages}", link.negotiated().format()));
    while !stop.load(Ordering::Relaxed) && link.is_connected() && !broken.load(Ordering::Relaxed) {
        std::thread::sleep(CHECK);
    }
    if let Some(mapping) = shared.mapping() {
        mapping.physical_down();
    }
    for queue in 0..count {
        fabric.detach_receive((shared.id, queue));
        fabric.detach_transmit((shared.id, queue));
    }
    if broken.load(Ordering::Relaxed) { "it broke a ring".into() } else { "it left".into() }
}

/// An established link, and what its queues are made of.
struct Session {
    link: Arc<Link>,
    shared: Arc<PortShared>,
    arena: Arc<Arena>,
    /// Where the receive queues and their buffers lie.
    receive: Vec<(QueueConfig, u64)>,
    broken: Arc<AtomicBool>,
}

type Pair = (Box<dyn Receive>, Box<dyn Transmit>);

impl Session {
    fn establish(
        options: &FrontendOptions,
        shared: &Arc<PortShared>,
        stop: &AtomicBool,
    ) -> Result<(Session, Vec<Pair>), String> {
        let queues = u64::from(options.queue_pairs) * 2;
        let buffers = u64::from(options.queue_size) * u64::from(STRIDE);
        // Rings take less than a tenth of what their buffers take.
        let mut arena = Arena::new(queues * buffers * 2 + (1 << 20), true).map_err(|e| e.to_string())?;
        let (link, pairs) = Link::establish(options, &mut arena, None, stop).map_err(|e| e.to_string())?;
        let mut place = || arena.allocate(buffers, 4096).ok_or("its memory is too small");
        let places = pairs.iter().map(|_| Ok((place()?, place()?))).collect::<Result<Vec<_>, &str>>()?;
        let receive = pairs.iter().zip(&places).map(|(pair, place)| (pair.receive.config, place.0)).collect();
        let session = Session {
            link: Arc::new(link),
            shared: shared.clone(),
            arena: Arc::new(arena),
            receive,
            broken: Arc::default(),
        };
        let pairs = pairs.into_iter().zip(places).enumerate().map(|(queue, (pair, place))| {
            let receive = session.receive_half(queue, pair.receive);
            let (end, _) = session.end(pair.transmit, place.1);
            (receive, Box::new(VirtioTransmit::new(end)) as Box<dyn Transmit>)
        });
        let pairs = pairs.collect();
        Ok((session, pairs))
    }

    fn end(&self, end: QueueEnd, buffers: u64) -> (End, OwnedFd) {
        let QueueEnd { queue, kick, call, config } = end;
        let (arena, broken) = (self.arena.clone(), self.broken.clone());
        (End { queue, buffers, size: config.size, kick, arena, broken }, call)
    }

    fn receive_half(&self, queue: usize, end: QueueEnd) -> Box<dyn Receive> {
        let mergeable = self.link.negotiated().has(features::MRG_RXBUF);
        let mapped = self.shared.mapping().and_then(|mapping| mapping.queue(queue));
        let (end, call) = self.end(end, self.receive[queue].1);
        Box::new(VirtioReceive::new(end, call, mergeable, mapped))
    }
}

impl Physical for Session {
    fn share(&mut self, memories: &[Arc<Memory>]) -> Result<(), String> {
        let mut regions = Vec::new();
        for memory in memories {
            for region in memory.regions() {
                // Descriptors name a guest's buffers by our own addresses, which no two guests have in common.
                let host = memory.translate(region.guest_addr, region.len).ok_or("its memory is in pieces")?;
                let host = host.as_ptr().addr() as u64;
                regions.push(Region { guest_addr: host, user_addr: host, ..region.clone() });
            }
        }
        self.link.share(&self.arena, &regions).map_err(|e| e.to_string())
    }

    fn stop(&mut self, queue: usize) -> Result<(), String> {
        self.link.stop(2 * queue).map_err(|e| e.to_string())
    }

    fn start(&mut self, queue: usize) -> Result<Box<dyn Receive>, String> {
        let end = self.link.start(&self.arena, 2 * queue, &self.receive[queue].0).map_err(|e| e.to_string())?;
        Ok(self.shared.wrap_receive(self.receive_half(queue, end)))
    }
}
