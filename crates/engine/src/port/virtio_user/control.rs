//! The thread that keeps a virtio-user port connected to its backend.

use super::door::Door;
use super::{QueueResources, STRIDE, Settings, VirtioReceive, VirtioTransmit};
use crate::port::offloads::{BACKEND, Chosen};
use crate::port::zero_copy::{self, Direction, Mapped, ZeroCopyQueue};
use crate::port::{PortControl, ReceiveHalf, Site, TransmitHalf};
use packet::offload::Offloads;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;
use vhost_user::Listener;
use vhost_user::frontend::{FrontendError, FrontendOptions, Link, QueueEnd, QueuePair};
use virtqueue::memory::{Arena, Memory, Region};
use virtqueue::{QueueConfig, features, offload};

/// Interval at which the link is checked.
const CHECK: Duration = Duration::from_millis(20);

/// Connections in a row that may end when the backend is given a guest's memory. The next one does not get it.
const TRIES: u32 = 3;

/// Returns the options that a port asks of its backend. A `mapped` port gets every frame in one buffer.
fn options(settings: &Settings, mapped: bool, offloads: Offloads) -> FrontendOptions {
    let packed = if settings.packed { features::RING_PACKED } else { 0 };
    let mergeable = if mapped { 0 } else { features::MRG_RXBUF };
    FrontendOptions {
        socket: settings.socket.clone(),
        mode: settings.mode,
        queue_pairs: settings.queues,
        queue_sizes: settings.queue_sizes,
        features: mergeable | features::IN_ORDER | packed | offload::features(offloads),
        exchange: None,
    }
}

/// Thread that connects and reconnects, and ends when this is dropped.
pub(super) struct LinkThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    door: Door,
}

impl LinkThread {
    pub(super) fn spawn(settings: &Settings, site: Arc<dyn Site>) -> std::io::Result<LinkThread> {
        let chosen = Chosen::new(&*site, settings.offloads);
        let options = options(settings, site.is_mapped(), chosen.offloads);
        let stop = Arc::new(AtomicBool::new(false));
        site.set_state(false, "no backend is connected".into());
        site.set_offloads(chosen.stats());
        let (stopping, door) = (stop.clone(), Door::default());
        let opened = door.clone();
        let thread = std::thread::Builder::new().name(format!("link-{}", site.name())).spawn(move || {
            let mut failed_shares = 0;
            while !stopping.load(Ordering::Relaxed) {
                let why = serve((&options, chosen), &site, (&stopping, &opened), &mut failed_shares);
                site.set_state(false, format!("no backend is connected: {why}"));
                if !stopping.load(Ordering::Relaxed) {
                    std::thread::sleep(CHECK);
                }
            }
        })?;
        Ok(LinkThread { stop, thread: Some(thread), door })
    }
}

impl PortControl for LinkThread {
    fn listener(&self) -> Option<Arc<Listener>> {
        self.door.listener()
    }
}

impl Drop for LinkThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Serves one connection until it ends, and returns why it did. `failed_shares` is the number of connections in a row
/// that ended when the backend was given a guest's memory.
fn serve(
    (options, chosen): (&FrontendOptions, Chosen),
    site: &Arc<dyn Site>,
    (stop, door): (&AtomicBool, &Door),
    failed_shares: &mut u32,
) -> String {
    let (session, pairs) = match Session::establish(options, site, (stop, door), *failed_shares < TRIES) {
        Ok(established) => established,
        Err(why) => return why,
    };
    let agreed = offload::of_driver(session.link.negotiated());
    site.set_offloads(chosen.limited(agreed, BACKEND).stats());
    let (link, broken, count) = (session.link.clone(), session.broken.clone(), pairs.len());
    let pages = if session.arena.is_huge() { "huge pages" } else { "4 KiB pages" };
    let session = Arc::new(Mutex::new(session));
    let attach = |(queue, pair)| zero_copy::attach(site, queue, Box::new(SessionQueue::new(&session, queue, pair)));
    if let Err(why) = pairs.into_iter().enumerate().try_for_each(attach) {
        site.physical_down();
        site.clear(count);
        return why;
    }
    site.set_state(true, format!("{}, {count} queue pairs, {pages}", link.negotiated().format()));
    while !stop.load(Ordering::Relaxed) && link.is_connected() && !broken.load(Ordering::Relaxed) {
        std::thread::sleep(CHECK);
    }
    site.physical_down();
    site.clear(count);
    if session.lock().unwrap().lost_by_sharing {
        *failed_shares += 1;
        return "it left, or did not answer, when it was given a guest's memory".into();
    }
    *failed_shares = 0;
    if broken.load(Ordering::Relaxed) { "a queue of it is broken".into() } else { "it left".into() }
}

/// An established link, and the memory of its queues.
struct Session {
    link: Arc<Link>,
    site: Arc<dyn Site>,
    arena: Arc<Arena>,
    /// Rings, and addresses of buffers, by vhost-user's index.
    places: Vec<(QueueConfig, u64)>,
    broken: Arc<AtomicBool>,
    /// Memories of guests that each queue may receive into, by queue.
    guests: Vec<Vec<Arc<Memory>>>,
    /// Memories of guests that the backend has; `None` if that is unknown.
    accepted: Option<Vec<Arc<Memory>>>,
    /// Whether the backend did not answer in time and was disconnected: its further actions are unknown.
    silent: bool,
    /// Whether the backend is given memory of guests.
    shares: bool,
    /// Whether the backend became useless when it was given a guest's memory.
    lost_by_sharing: bool,
}

impl Session {
    fn establish(
        options: &FrontendOptions,
        site: &Arc<dyn Site>,
        (stop, door): (&AtomicBool, &Door),
        shares: bool,
    ) -> Result<(Session, Vec<QueuePair>), String> {
        let buffers = |size: u16| u64::from(size) * u64::from(STRIDE);
        let pair = buffers(options.queue_sizes.receive) + buffers(options.queue_sizes.transmit);
        // Rings need less than a tenth of their buffers' memory.
        let len = u64::from(options.queue_pairs) * pair * 2 + (1 << 20);
        let mut arena = Arena::new(len, true).map_err(|e| e.to_string())?;
        #[cfg(feature = "analysis")]
        if site.analysis().omit_copies {
            arena.omit_copies();
        }
        let (link, pairs) = door.establish(&**site, options, &mut arena, stop).map_err(|e| e.to_string())?;
        let mut place = |size| arena.allocate(buffers(size), 4096).ok_or("its memory is too small");
        let mut both = || Ok((place(options.queue_sizes.receive)?, place(options.queue_sizes.transmit)?));
        let places = pairs.iter().map(|_| both()).collect::<Result<Vec<_>, &str>>()?;
        let of = |(pair, place): (&QueuePair, &(u64, u64))| {
            [(pair.receive.config, place.0), (pair.transmit.config, place.1)]
        };
        let known = pairs.iter().zip(&places).flat_map(of).collect();
        let session = Session {
            link: Arc::new(link),
            site: site.clone(),
            arena: Arc::new(arena),
            places: known,
            broken: Arc::default(),
            guests: vec![Vec::new(); pairs.len()],
            accepted: Some(Vec::new()),
            silent: false,
            shares,
            lost_by_sharing: false,
        };
        Ok((session, pairs))
    }

    fn end(&self, queue: QueueEnd, buffers: u64) -> QueueResources {
        QueueResources {
            queue,
            buffers,
            arena: self.arena.clone(),
            broken: self.broken.clone(),
            drops: self.site.drops().clone(),
        }
    }

    fn receive_half(&self, queue: usize, end: QueueEnd, mapped: Option<Arc<Mapped>>) -> ReceiveHalf {
        let mergeable = self.link.negotiated().has(features::MRG_RXBUF);
        let end = self.end(end, self.places[2 * queue].1);
        #[cfg(feature = "analysis")]
        let mapped = mapped.filter(|_| !self.site.analysis().copied);
        let outer = self.site.overhead();
        Box::new(VirtioReceive::new(end, mergeable, mapped, outer))
    }

    fn transmit_half(&self, queue: usize, end: QueueEnd, mapped: Option<Arc<Mapped>>) -> TransmitHalf {
        Box::new(VirtioTransmit::new(self.end(end, self.places[2 * queue + 1].1), mapped))
    }

    fn restart(&mut self, index: usize) -> Result<QueueEnd, String> {
        let started = self.link.start(&self.arena, index, &self.places[index].0);
        self.heard(started)
    }

    /// Converts the backend's answer, and notes a timeout.
    fn heard<T>(&mut self, answer: Result<T, FrontendError>) -> Result<T, String> {
        if let Err(FrontendError::Timeout) = answer {
            self.silent = true;
            self.broken.store(true, Ordering::Relaxed);
        }
        answer.map_err(|error| error.to_string())
    }

    /// Lets the backend reach the memory of all guests.
    fn share(&mut self) -> Result<(), String> {
        let mut memories: Vec<&Arc<Memory>> = Vec::new();
        for memory in self.guests.iter().flatten() {
            if !memories.iter().any(|known| Arc::ptr_eq(known, memory)) {
                memories.push(memory);
            }
        }
        let same = |(a, b): (&Arc<Memory>, &&Arc<Memory>)| Arc::ptr_eq(a, b);
        let has = |accepted: &Vec<_>| accepted.len() == memories.len() && accepted.iter().zip(&memories).all(same);
        if self.accepted.as_ref().is_some_and(has) {
            return Ok(());
        }
        if !self.shares {
            return Err(format!(
                "the backend left, or did not answer, {TRIES} times in a row when it was given a guest's memory; it is \
                 tried again when the backend reconnects"
            ));
        }
        let memories: Vec<Arc<Memory>> = memories.into_iter().cloned().collect();
        let mut regions = Vec::new();
        for memory in &memories {
            for region in memory.regions() {
                // Descriptors name a guest's buffers by addresses of this process, which are unique among guests.
                let host = memory.translate(region.guest_addr, region.len).ok_or("its memory is in pieces")?;
                let host = host.as_ptr().addr() as u64;
                regions.push(Region { guest_addr: host, user_addr: host, ..region.clone() });
            }
        }
        let shared = self.link.share(&self.arena, &regions);
        if !matches!(shared, Err(FrontendError::TooManyRegions { .. })) {
            // It was sent: unless the backend takes it, its table is unknown.
            self.accepted = None;
        }
        self.heard(shared)?;
        self.accepted = Some(memories);
        Ok(())
    }

    /// Stops a queue, by vhost-user's index.
    fn stop(&mut self, index: usize) -> Result<(), String> {
        let stopped = if self.silent { Err(FrontendError::Timeout) } else { self.link.stop(index) };
        let stopped = self.heard(stopped);
        // A backend that has disconnected has stopped. One that refuses gets no second chance on this connection.
        if self.silent || self.link.is_connected() {
            return stopped.inspect_err(|_| self.broken.store(true, Ordering::Relaxed));
        }
        Ok(())
    }
}

/// A queue pair of an established link.
struct SessionQueue {
    session: Arc<Mutex<Session>>,
    queue: usize,
    /// Its ends that run since the link was established, and that no half has had.
    receive: Option<QueueEnd>,
    transmit: Option<QueueEnd>,
}

impl SessionQueue {
    fn new(session: &Arc<Mutex<Session>>, queue: usize, pair: QueuePair) -> SessionQueue {
        let QueuePair { receive, transmit, .. } = pair;
        SessionQueue { session: session.clone(), queue, receive: Some(receive), transmit: Some(transmit) }
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap()
    }
}

impl ZeroCopyQueue for SessionQueue {
    fn share(&mut self, memories: &[Arc<Memory>], macs: Option<&[[u8; 6]]>) -> Result<(), String> {
        let mut session = self.session();
        if macs.is_some() {
            return Err(format!("frames that \"{}\" receives are not steered", session.site.name()));
        }
        session.guests[self.queue] = memories.to_vec();
        let shared = session.share();
        if shared.is_err() {
            // Memory that the backend does not take must not stand in the way of other guests'.
            session.guests[self.queue].clear();
            if session.share().is_err() {
                session.lost_by_sharing |= !memories.is_empty();
                session.broken.store(true, Ordering::Relaxed);
            }
        }
        shared
    }

    fn stop(&mut self, direction: Direction) -> Result<(), String> {
        let index = match direction {
            Direction::ToGuest => 2 * self.queue,
            Direction::FromGuest => 2 * self.queue + 1,
        };
        self.session().stop(index)
    }

    fn fail(&mut self) {
        self.session().broken.store(true, Ordering::Relaxed);
    }

    fn start_receive(&mut self, mapped: Option<Arc<Mapped>>) -> Result<ReceiveHalf, String> {
        let fresh = self.receive.take();
        let mut session = self.session();
        let end = fresh.map_or_else(|| session.restart(2 * self.queue), Ok)?;
        Ok(session.receive_half(self.queue, end, mapped))
    }

    fn start_transmit(&mut self, mapped: Option<Arc<Mapped>>) -> Result<TransmitHalf, String> {
        let fresh = self.transmit.take();
        let mut session = self.session();
        let end = fresh.map_or_else(|| session.restart(2 * self.queue + 1), Ok)?;
        Ok(session.transmit_half(self.queue, end, mapped))
    }
}
