//! The thread that keeps a virtio-user port connected to its backend.

use super::fabric::Fabric;
use super::shared::PortShared;
use crate::port::virtio_user::{End, ROOM, VirtioReceive, VirtioTransmit};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use vhost_user::Mode;
use vhost_user::frontend::{FrontendOptions, Link, QueueEnd};
use virtqueue::features;
use virtqueue::memory::Arena;

/// How often the link is looked after.
const CHECK: Duration = Duration::from_millis(20);

/// What a port asks of its backend.
pub(super) fn options(socket: &Path, mode: Mode, queue_pairs: u16, queue_size: u16, packed: bool) -> FrontendOptions {
    let packed = if packed { features::RING_PACKED } else { 0 };
    FrontendOptions {
        socket: socket.to_owned(),
        mode,
        queue_pairs,
        queue_size,
        features: features::MRG_RXBUF | features::IN_ORDER | packed,
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
    let queues = u64::from(options.queue_pairs) * 2;
    let buffers = u64::from(options.queue_size) * u64::from(ROOM);
    // Rings take less than a tenth of what their buffers take.
    let mut arena = match Arena::new(queues * buffers * 2 + (1 << 20), true) {
        Ok(arena) => arena,
        Err(error) => return error.to_string(),
    };
    let (link, pairs) = match Link::establish(options, &mut arena, None, stop) {
        Ok(established) => established,
        Err(error) => return error.to_string(),
    };
    let mut places = Vec::new();
    for _ in 0..queues {
        match arena.allocate(buffers, 4096) {
            Some(place) => places.push(place),
            None => return "its memory is too small".into(),
        }
    }
    let huge = arena.is_huge();
    let arena = Arc::new(arena);
    let broken = Arc::new(AtomicBool::new(false));
    let mergeable = link.negotiated().has(features::MRG_RXBUF);
    let mut places = places.into_iter();
    let mut end = |end: QueueEnd| {
        let QueueEnd { queue, kick, call, .. } = end;
        let buffers = places.next().expect("there are as many as queues");
        let size = options.queue_size;
        (End { queue, buffers, size, kick, arena: arena.clone(), broken: broken.clone() }, call)
    };
    let count = pairs.len();
    for (index, pair) in pairs.into_iter().enumerate() {
        let key = (shared.id, index);
        let (receive, call) = end(pair.receive);
        let (transmit, _) = end(pair.transmit);
        let receive = Box::new(VirtioReceive::new(receive, call, mergeable));
        fabric.attach_receive(key, shared.wrap_receive(receive));
        fabric.attach_transmit(key, shared.wrap_transmit(Box::new(VirtioTransmit::new(transmit))));
    }
    let pages = if huge { "huge pages" } else { "4 KiB pages" };
    shared.set_state(true, format!("{}, {count} queue pairs, {pages}", link.negotiated().format()));
    while !stop.load(Ordering::Relaxed) && link.is_connected() && !broken.load(Ordering::Relaxed) {
        std::thread::sleep(CHECK);
    }
    for index in 0..count {
        fabric.detach_receive((shared.id, index));
        fabric.detach_transmit((shared.id, index));
    }
    if broken.load(Ordering::Relaxed) { "it broke a ring".into() } else { "it left".into() }
}
