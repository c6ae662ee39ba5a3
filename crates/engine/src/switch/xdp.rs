//! `AF_XDP` ports, control side: sockets are opened, watched, and opened again with other memory.

mod steering;
mod watched;

use super::kernel::{self, Kind};
use super::physical::Physical;
use super::shared::PortShared;
use crate::port::af_xdp::{Pool, Reach, Stuck, XdpReceive, XdpTransmit};
use crate::port::lend::{LEND_ROOM, Mapped};
use crate::port::{Receive, Transmit};
use netdev::{Link, Links, ethtool};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use virtqueue::NET_HEADER;
use virtqueue::memory::{Arena, Memory};
use watched::Watched;
use xsk::{
    Attach, Attached, Bound, Chunks, Completion, Fill, Interface, Mode, Queue, QueueConfig, Redirect, RedirectConfig,
    Rx, Steering, Tx,
};

/// Interval at which the keeper checks the interface.
const CHECK: Duration = Duration::from_millis(50);

/// Time that a driver may take to release a queue.
const RELEASE: Duration = Duration::from_secs(10);

/// Ethernet header and a VLAN tag: the bytes of a frame beyond the MTU.
const OVERHEAD: usize = 18;

/// Size of chunks for the usual MTU, and for larger ones.
const CHUNKS: [u32; 2] = [2048, 4096];

/// Maximum length of a frame in a buffer of [`LEND_ROOM`]. In copy mode the kernel applies the limit to the byte;
/// drivers apply it in steps of 128 bytes, so in zero-copy mode buffers have to be a little longer.
const LIMITS: [u32; 2] = [LEND_ROOM - NET_HEADER, (LEND_ROOM - NET_HEADER).next_multiple_of(128)];

/// Options of an AF_XDP port.
pub(super) struct Options {
    pub(super) interface: String,
    pub(super) queues: u16,
    pub(super) mode: Mode,
    pub(super) queue_size: u16,
}

impl Kind for Options {
    fn interface(&self) -> Option<&str> {
        Some(&self.interface)
    }

    fn open(&self, links: &Links, shared: &Arc<PortShared>) -> Result<Box<dyn kernel::Session>, String> {
        let session = Session::open(self, links, shared)?;
        let (watched, detail) = (session.watched.clone(), session.describe());
        Ok(Box::new(Open { shared: shared.clone(), watched, detail, session: Some(session) }))
    }
}

/// An open port, as its keeper sees it.
struct Open {
    shared: Arc<PortShared>,
    watched: Arc<Watched>,
    detail: String,
    /// `None` while a mapping has it.
    session: Option<Session>,
}

impl kernel::Session for Open {
    fn link(&self) -> &Link {
        &self.watched.link
    }

    fn halves(&mut self, queue: usize) -> Result<(Box<dyn Receive>, Box<dyn Transmit>), String> {
        let session = self.session.as_mut().ok_or("a mapping has it already")?;
        Ok((session.start_receive(queue)?, session.start_transmit(queue)?))
    }

    fn attached(&mut self) {
        // If the port is not mapped, the session only has to live.
        if let Some((mapping, session)) =
            self.shared.mapping().and_then(|mapping| Some((mapping, self.session.take()?)))
        {
            mapping.physical_up(self.shared.clone(), Box::new(session));
        }
    }

    fn detaching(&mut self) {
        self.watched.count(&self.shared);
        if let Some(mapping) = self.shared.mapping() {
            mapping.physical_down();
        }
    }

    fn changed(&mut self, link: &Link) -> Result<(), String> {
        if link.mtu != self.watched.link.mtu {
            return Err(format!("the MTU of {} changes to {}", link.name, link.mtu));
        }
        Ok(())
    }

    fn interval(&self) -> Option<Duration> {
        Some(CHECK)
    }

    fn look_after(&mut self) -> Result<(), String> {
        self.watched.count(&self.shared);
        if self.watched.failed.load(Ordering::Relaxed) {
            return Err("its sockets could not be opened again".to_owned());
        }
        Ok(())
    }

    fn describe(&self, link: &Link) -> String {
        format!("{}, MTU {}", self.detail, link.mtu)
    }
}

/// Both directions of a queue, before workers have them.
struct Prepared {
    receive: Option<(Rx, Fill)>,
    transmit: Option<(Tx, Completion)>,
}

/// Sockets and memory of an open port.
struct Session {
    shared: Arc<PortShared>,
    watched: Arc<Watched>,
    redirect: Redirect,
    _promiscuous: netdev::Promiscuous,
    queues: u16,
    config: QueueConfig,
    /// Reason why the kernel copies frames, if it does.
    copies: Option<String>,
    /// The switch's own chunks, and the address of the part for each direction of each queue.
    arena: Arc<Arena>,
    pools: Vec<u64>,
    size: u16,
    own_chunks: Chunks,
    /// Guests' memories asked for, the only addresses whose frames may land there, and the reason if they were refused.
    memories: Vec<Arc<Memory>>,
    macs: Option<Vec<[u8; 6]>>,
    refused: Option<String>,
    /// Frames that go to the sockets.
    steering: Steering,
    reach: Reach,
    prepared: Vec<Option<Prepared>>,
    bounds: Vec<Option<Bound>>,
    stuck: Vec<Arc<Stuck>>,
}

impl Session {
    fn open(options: &Options, links: &Links, shared: &Arc<PortShared>) -> Result<Session, String> {
        let name = &options.interface;
        let text = |error: netdev::Error| error.to_string();
        let failed = |error: xsk::Error| error.to_string();
        let link = links.get(name).and_then(|link| links.bring_up(&link)).map_err(text)?;
        let there = ethtool::rx_queues(&link).map_err(text)?;
        if u32::from(options.queues) > there {
            return Err(format!("interface {name} has {there} queues, not {}; lower `queues`", options.queues));
        }
        let interface = Interface { name: link.name.clone(), index: link.index, queues: there };
        let fits = |size: &&u32| Chunks::aligned(**size).frame_limit(true) as usize >= link.mtu + OVERHEAD;
        let chunk = CHUNKS.iter().find(fits).copied();
        let multi_buffer = chunk.is_none();
        let own_chunks = Chunks::aligned(chunk.unwrap_or(CHUNKS[1]));
        let attach = if options.mode == Mode::ZeroCopy { Attach::Native } else { Attach::Auto };
        let redirect = RedirectConfig { attach, multi_buffer, ..RedirectConfig::default() };
        let redirect = Redirect::attach(&interface, &redirect).map_err(failed)?;
        let size = options.queue_size;
        let bytes = u64::from(size) * u64::from(own_chunks.size);
        let count = 2 * u64::from(options.queues);
        let mut arena = Arena::new(count * bytes + 4096, true).map_err(|e| e.to_string())?;
        let pools = (0..count).map(|_| arena.allocate(bytes, 4096).ok_or("its memory is too small"));
        let pools = pools.collect::<Result<_, _>>()?;
        let ring = size.into();
        let promiscuous = netdev::Promiscuous::set(&link).map_err(text)?;
        let (monitors, passed, failed) = Default::default();
        let watched = Watched { link, interface, monitors, passed, failed };
        let mut session = Session {
            shared: shared.clone(),
            watched: Arc::new(watched),
            _promiscuous: promiscuous,
            queues: options.queues,
            config: QueueConfig {
                multi_buffer,
                fill: ring,
                rx: ring,
                tx: ring,
                completion: ring,
                busy_wait: RELEASE,
                ..QueueConfig::default()
            },
            copies: None,
            reach: Reach::new(&[arena.memory().clone()], own_chunks)?,
            arena: Arc::new(arena),
            pools,
            size,
            own_chunks,
            memories: Vec::new(),
            macs: None,
            refused: None,
            steering: Steering::All,
            prepared: (0..options.queues).map(|_| None).collect(),
            bounds: vec![None; options.queues.into()],
            stuck: (0..options.queues).map(|_| Arc::default()).collect(),
            redirect,
        };
        session.choose(options.mode)?;
        Ok(session)
    }

    /// Opens all queues for the first time, and finds out whether the driver or the kernel moves frames.
    fn choose(&mut self, mode: Mode) -> Result<(), String> {
        let generic = self.redirect.attached() == Attached::Generic;
        self.copies = match mode {
            Mode::Copy => Some("as configured".into()),
            Mode::Auto if generic => Some("XDP is generic".into()),
            _ => {
                self.config.mode = Mode::ZeroCopy;
                match self.prepare_all() {
                    Ok(()) => return Ok(()),
                    Err(why) if mode == Mode::ZeroCopy => return Err(why),
                    Err(_) => {
                        let driver = ethtool::driver(&self.watched.link).unwrap_or_else(|| "unknown".into());
                        Some(format!("driver {driver} can't do zero-copy"))
                    }
                }
            }
        };
        self.config.mode = Mode::Copy;
        self.prepare_all()
    }

    /// Describes the port for display.
    fn describe(&self) -> String {
        let mode = match &self.copies {
            None => "zero-copy".to_owned(),
            Some(why) => format!("copied by the kernel ({why})"),
        };
        let xdp = match (self.redirect.attached(), self.redirect.native_refused()) {
            (Attached::Native, _) => "native XDP".to_owned(),
            (Attached::Generic, None) => "generic XDP".to_owned(),
            (Attached::Generic, Some(why)) => format!("generic XDP (native: {why})"),
        };
        let left = self.watched.interface.queues.saturating_sub(self.queues.into());
        let rest = if left > 0 { format!(", frames of {left} more queues go to the kernel") } else { String::new() };
        format!("interface {}, {mode}, {xdp}{rest}", self.watched.link.name)
    }

    fn is_zero_copy(&self) -> bool {
        self.copies.is_none()
    }

    /// Opens a queue with the present memory.
    fn prepare(&mut self, queue: usize) -> Result<(), String> {
        let text = |error: xsk::Error| error.to_string();
        let opened =
            Queue::open(self.reach.umem(), &self.watched.interface, queue as u32, &self.config).map_err(text)?;
        self.redirect.insert(&opened.rx).map_err(text)?;
        self.bounds[queue] = Some(opened.bound().clone());
        self.watched.monitors.lock().unwrap().push((opened.monitor(), 0));
        let Queue { fill, rx, tx, completion } = opened;
        self.prepared[queue] = Some(Prepared { receive: Some((rx, fill)), transmit: Some((tx, completion)) });
        Ok(())
    }

    fn prepare_all(&mut self) -> Result<(), String> {
        let all = (0..usize::from(self.queues)).try_for_each(|queue| self.prepare(queue));
        if all.is_err() {
            self.prepared.fill_with(|| None);
        }
        all
    }

    /// Opens all queues with the memories of guests.
    fn reach_guests(&mut self) -> Result<(), String> {
        let limit = LIMITS[usize::from(self.is_zero_copy())];
        let most = limit as usize - OVERHEAD;
        let Link { name, mtu, .. } = &self.watched.link;
        if *mtu > most {
            return Err(format!("the MTU of {name} is {mtu}; lower it to {most}"));
        }
        // Steers before the kernel has any buffer of theirs.
        self.steer(self.destinations()?)?;
        let chunks = Chunks::limited(CHUNKS[0], limit).expect("that is less than a chunk");
        let mut all = vec![self.arena.memory().clone()];
        all.extend(self.memories.iter().cloned());
        self.reach = Reach::new(&all, chunks)?;
        self.prepare_all()
    }

    /// Opens all queues with the switch's own memory only.
    fn reach_own(&mut self) -> Result<(), String> {
        self.steer(Steering::All)?;
        self.reach = Reach::new(&[self.arena.memory().clone()], self.own_chunks)?;
        self.prepare_all()
    }

    /// Takes a half of a queue by `take`, after opening the queue if it is closed.
    fn half<T>(&mut self, queue: usize, take: impl Fn(&mut Prepared) -> Option<T>) -> Result<T, String> {
        if self.prepared[queue].is_none() {
            self.prepare(queue).inspect_err(|_| self.watched.failed.store(true, Ordering::Relaxed))?;
        }
        let taken = self.prepared[queue].as_mut().and_then(take);
        taken.ok_or_else(|| "it runs already".to_owned())
    }

    fn pool(&self, index: usize) -> Result<Pool, String> {
        let pool = Pool::new(self.arena.clone(), &self.reach, self.pools[index], self.size);
        pool.ok_or_else(|| "its memory is in pieces".to_owned())
    }

    fn mapped(&self, queue: usize) -> Option<Arc<Mapped>> {
        self.shared.mapping().and_then(|mapping| mapping.queue(queue))
    }
}

impl Physical for Session {
    fn is_coupled(&self) -> bool {
        // One socket serves both directions.
        true
    }

    fn rests_to_share(&self, memories: &[Arc<Memory>], macs: Option<&[[u8; 6]]>) -> bool {
        let same = |(a, b): (&Arc<Memory>, &Arc<Memory>)| Arc::ptr_eq(a, b);
        let other = memories.len() != self.memories.len() || !memories.iter().zip(&self.memories).all(same);
        other || !memories.is_empty() && macs != self.macs.as_deref()
    }

    fn share(&mut self, memories: &[Arc<Memory>], macs: Option<&[[u8; 6]]>) -> Result<(), String> {
        if !self.rests_to_share(memories, macs) {
            return self.refused.clone().map_or(Ok(()), Err);
        }
        self.memories = memories.to_vec();
        self.macs = macs.map(<[_]>::to_vec);
        self.prepared.fill_with(|| None);
        self.refused = if memories.is_empty() { None } else { self.reach_guests().err() };
        if memories.is_empty() || self.refused.is_some() {
            // If this fails, starting fails too, and the port is opened again.
            let _ = self.reach_own();
        }
        self.refused.clone().map_or(Ok(()), Err)
    }

    fn stop(&mut self, index: usize) -> Result<(), String> {
        let queue = index / 2;
        self.prepared[queue] = None;
        // `Watched::count` owns a socket while it looks at it. With the lock held it does not, so the socket is closed.
        drop(self.watched.monitors.lock().unwrap());
        // In copy mode that suffices.
        if let Some(bound) = self.bounds[queue].as_ref().filter(|bound| bound.zero_copy) {
            // Long enough for both directions; for the other one this only checks the result.
            let patience = if index.is_multiple_of(2) { RELEASE } else { Duration::ZERO };
            bound.wait_released(patience).map_err(|error| {
                self.watched.failed.store(true, Ordering::Relaxed);
                error.to_string()
            })?;
        }
        self.bounds[queue] = None;
        Ok(())
    }

    fn fail(&mut self) {
        self.watched.failed.store(true, Ordering::Relaxed);
    }

    fn start_receive(&mut self, queue: usize) -> Result<Box<dyn Receive>, String> {
        let rings = self.half(queue, |prepared| prepared.receive.take())?;
        let room = NET_HEADER + self.reach.umem().chunks().frame_limit(self.is_zero_copy());
        let mapped = self.mapped(queue).map(|mapped| (mapped, room));
        let counts = (self.stuck[queue].clone(), self.shared.drops.clone());
        let half = XdpReceive::new(rings, self.reach.clone(), self.pool(2 * queue)?, mapped, counts);
        let half = half.map_err(|e| e.to_string())?;
        self.with_passed(queue, half)
    }

    fn start_transmit(&mut self, queue: usize) -> Result<Box<dyn Transmit>, String> {
        let rings = self.half(queue, |prepared| prepared.transmit.take())?;
        let limit = (self.watched.link.mtu + OVERHEAD) as u32;
        let (pool, mapped) = (self.pool(2 * queue + 1)?, self.mapped(queue));
        let half = XdpTransmit::new(rings, self.reach.clone(), pool, limit, mapped, self.stuck[queue].clone());
        Ok(Box::new(half))
    }
}
