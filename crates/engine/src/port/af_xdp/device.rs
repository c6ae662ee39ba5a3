//! The interface of an AF_XDP port, as all of its queues share it: the XDP program, the switch's memory, and the mode.

use super::umem_view::WeakView;
use super::watched::{Watched, WatchedSocket};
use super::{Settings, UmemView};
use crate::port::Site;
use crate::port::steer::Steer;
use crate::port::unfinished::Unfinished;
use crate::port::zero_copy::LEND_ROOM;
use netdev::{Links, ethtool};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use virtqueue::NET_HEADER;
use virtqueue::memory::{Arena, Memory};
use xsk::{Attach, Attached, Chunks, Groups, Interface, Mode, Queue, QueueConfig, Redirect, RedirectConfig};

/// Time that a driver may take to release a queue.
pub(super) const RELEASE: Duration = Duration::from_secs(10);

/// Time limit for a queue of the open port to be released by the kernel, which takes two grace periods of RCU: these may
/// be seconds on a busy machine.
const REOPEN: Duration = Duration::from_secs(60);

/// Ethernet header and a VLAN tag: the bytes of a frame beyond the MTU.
pub(super) const OVERHEAD: usize = 18;

/// Size of chunks for the usual MTU, and for larger ones.
pub(super) const CHUNKS: [u32; 2] = [2048, 4096];

/// Maximum length of a frame in a buffer of [`LEND_ROOM`]. In copy mode the kernel applies the limit to the byte;
/// drivers apply it in steps of 128 bytes, so in zero-copy mode buffers have to be a little longer.
pub(super) const LIMITS: [u32; 2] = [LEND_ROOM - NET_HEADER, (LEND_ROOM - NET_HEADER).next_multiple_of(128)];

/// The interface of an open port.
pub(super) struct Device {
    pub(super) site: Arc<dyn Site>,
    pub(super) watched: Arc<Watched>,
    redirect: Redirect,
    _promiscuous: netdev::Promiscuous,
    tags: Tags,
    /// If frames may arrive whose checksums are unfinished: those of this machine, which pass no hardware.
    pub(super) unfinished: Option<Unfinished>,
    config: QueueConfig,
    /// Reason why the kernel copies frames, if it does.
    copies: Option<String>,
    /// The switch's own chunks.
    pub(super) arena: Arc<Arena>,
    /// View of the switch's own chunks only, for all queues.
    pub(super) own: UmemView,
    /// Views of guests' memories, one for all queues of a guest: memory is pinned once for each.
    guests: Mutex<Vec<(Vec<Weak<Memory>>, WeakView)>>,
    queues: u16,
    /// Number of chunks in the pool of each direction of each queue.
    pub(super) size: u16,
    steering: Mutex<Steering>,
    /// Rules that the NIC has taken, and the reasons why it has not taken others.
    rules: Vec<ethtool::Rule>,
    refused: Vec<String>,
}

/// VLAN tags of received frames.
enum Tags {
    /// They arrive in the frames.
    InFrames { _undo: Option<ethtool::TagsInFrames> },
    /// The driver keeps some beside the frames, and the program puts them back.
    PutBack,
    /// The driver keeps some beside the frames: the end at which that can be changed is this one or the sender's.
    Lost { at_sender: bool },
}

/// Frames that go to the sockets.
struct Steering {
    /// Addresses asked for by each queue that has a guest's memory.
    asked: Vec<Option<Vec<[u8; 6]>>>,
    /// `None` if it is unknown, as the last change failed.
    applied: Option<xsk::Steering>,
}

/// Addresses of a queue's own chunks in the arena.
#[derive(Clone, Copy)]
pub(super) struct Pools {
    pub(super) receive: u64,
    pub(super) transmit: u64,
}

/// A queue whose socket is open, over the switch's own memory.
pub(super) struct OpenedQueue {
    pub(super) pools: Pools,
    pub(super) socket: Queue,
}

impl Device {
    /// Opens the interface, and the sockets of all its queues. Returns these by queue.
    pub(super) fn open(
        settings: &Settings,
        links: &Links,
        site: &Arc<dyn Site>,
    ) -> Result<(Arc<Device>, Vec<OpenedQueue>), String> {
        let name = &settings.interface;
        let text = |error: netdev::Error| error.to_string();
        let failed = |error: xsk::Error| error.to_string();
        let link = links.get(name).and_then(|link| links.bring_up(&link)).map_err(text)?;
        let there = ethtool::rx_queues(&link).map_err(text)?;
        if u32::from(settings.queues) > there {
            return Err(format!("interface {name} has {there} queues, not {}; lower `queues`", settings.queues));
        }
        let interface = Interface { name: link.name.clone(), index: link.index, queues: there };
        let fits = |size: &&u32| Chunks::aligned(**size).frame_limit(true) as usize >= link.mtu + OVERHEAD;
        let chunk = CHUNKS.iter().find(fits).copied();
        let multi_buffer = chunk.is_none();
        let own_chunks = Chunks::aligned(chunk.unwrap_or(CHUNKS[1]));
        let driver = ethtool::driver(&link);
        let is_veth = driver.as_deref() == Some("veth");
        let attach = if settings.mode == Mode::ZeroCopy { Attach::Native } else { Attach::Auto };
        // At a veth pair the sender's end decides, not this one.
        let left = if is_veth { Err(std::io::ErrorKind::Unsupported.into()) } else { ethtool::leave_tags(&link) };
        let redirect = RedirectConfig { attach, multi_buffer, tags: left.is_err(), ..RedirectConfig::default() };
        let redirect = Redirect::attach(&interface, &redirect).map_err(failed)?;
        let tags = match left {
            Ok(undo) => Tags::InFrames { _undo: undo },
            Err(_) if redirect.puts_tags_back() => Tags::PutBack,
            Err(_) => Tags::Lost { at_sender: is_veth },
        };
        let is_software = is_veth || redirect.attached() == Attached::Generic;
        let size = settings.queue_size;
        let bytes = u64::from(size) * u64::from(own_chunks.size);
        let count = 2 * u64::from(settings.queues);
        // Chunks lie at multiples of their size.
        let align = CHUNKS[1].into();
        let mut arena = Arena::new(count * bytes + align, true).map_err(|e| e.to_string())?;
        let mut pool = || arena.allocate(bytes, align).ok_or("its memory is too small");
        let pools = (0..settings.queues)
            .map(|_| Ok(Pools { receive: pool()?, transmit: pool()? }))
            .collect::<Result<Vec<_>, &str>>()?;
        let ring = size.into();
        let promiscuous = netdev::Promiscuous::set(&link).map_err(text)?;
        let (sockets, passed, failed) = Default::default();
        let watched = Watched { link, interface, sockets, passed, failed };
        let mut device = Device {
            site: site.clone(),
            watched: Arc::new(watched),
            redirect,
            _promiscuous: promiscuous,
            tags,
            unfinished: is_software.then(Unfinished::default),
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
            own: UmemView::new(&[arena.memory().clone()], own_chunks)?,
            arena: Arc::new(arena),
            guests: Mutex::default(),
            queues: settings.queues,
            size,
            steering: Mutex::new(Steering {
                asked: vec![None; settings.queues.into()],
                applied: Some(xsk::Steering::All),
            }),
            rules: Vec::new(),
            refused: Vec::new(),
        };
        let opened = device.choose(settings.mode, settings.queues.into())?;
        // From now on, a queue that is taken is one whose last socket the kernel has not released yet. To give up would
        // close the queues of all functions.
        device.config.busy_wait = REOPEN;
        device.add_rules(&settings.steer);
        let opened = pools.into_iter().zip(opened).map(|(pools, socket)| OpenedQueue { pools, socket });
        Ok((Arc::new(device), opened.collect()))
    }

    /// Asks the NIC to bring frames to queues by these rules.
    fn add_rules(&mut self, rules: &[Steer]) {
        for Steer { mac, queue } in rules {
            match ethtool::steer(&self.watched.link, *mac, (*queue).into()) {
                Ok(rule) => self.rules.push(rule),
                Err(why) => self.refused.push(format!("frames to {mac} are not steered to queue {queue}: {why}")),
            }
        }
        self.refused.iter().for_each(|why| tracing::warn!("port \"{}\": {why}", self.site.name()));
    }

    /// Opens all queues for the first time, and finds out whether the driver or the kernel moves frames.
    fn choose(&mut self, mode: Mode, queues: usize) -> Result<Vec<Queue>, String> {
        let generic = self.redirect.attached() == Attached::Generic;
        let all = |device: &Device| (0..queues).map(|queue| device.open_queue(queue, &device.own)).collect();
        self.copies = match mode {
            Mode::Copy => Some("as configured".into()),
            Mode::Auto if generic => Some("XDP is generic".into()),
            _ => {
                self.config.mode = Mode::ZeroCopy;
                match all(self) {
                    Ok(opened) => return Ok(opened),
                    Err(why) if mode == Mode::ZeroCopy => return Err(why),
                    Err(_) => {
                        let driver = ethtool::driver(&self.watched.link).unwrap_or_else(|| "unknown".into());
                        Some(format!("driver {driver} can't do zero-copy"))
                    }
                }
            }
        };
        self.config.mode = Mode::Copy;
        all(self)
    }

    /// Opens a queue over `view`.
    pub(super) fn open_queue(&self, queue: usize, view: &UmemView) -> Result<Queue, String> {
        let text = |error: xsk::Error| error.to_string();
        let opened = Queue::open(view.umem(), &self.watched.interface, queue as u32, &self.config).map_err(text)?;
        self.redirect.insert(&opened.rx).map_err(text)?;
        self.watched.sockets.lock().unwrap().push(WatchedSocket { monitor: opened.monitor(), lost: 0 });
        Ok(opened)
    }

    /// Describes the port for display.
    pub(super) fn describe(&self) -> String {
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
        let rules = if self.rules.is_empty() { String::new() } else { format!(", flow rules: {}", self.rules.len()) };
        let refused: String = self.refused.iter().map(|why| format!(", {why}")).collect();
        let name = &self.watched.link.name;
        let tags = match self.tags {
            Tags::InFrames { .. } | Tags::PutBack => String::new(),
            Tags::Lost { at_sender: false } => {
                format!(", frames arrive without their VLAN tags (`ethtool -K {name} rxvlan off`)")
            }
            Tags::Lost { at_sender: true } => {
                ", frames arrive without VLAN tags that the kernel adds (at the other end of the veth pair, `ethtool -K END \
                 txvlan off tx-vlan-stag-hw-insert off`)"
                    .to_owned()
            }
        };
        let checksums = if self.unfinished.as_ref().is_some_and(Unfinished::is_seen) {
            ", the switch computes checksums that the sender leaves to hardware (there, `ethtool -K END tx off`)"
        } else {
            ""
        };
        format!("interface {name}, {mode}, {xdp}{rules}{rest}{refused}{tags}{checksums}")
    }

    pub(super) fn is_zero_copy(&self) -> bool {
        self.copies.is_none()
    }

    /// Returns a view of the switch's own chunks and of a guest's memories, if frames of the interface fit into its buffers.
    pub(super) fn guest_view(&self, memories: &[Arc<Memory>]) -> Result<UmemView, String> {
        let limit = LIMITS[usize::from(self.is_zero_copy())];
        let most = limit as usize - OVERHEAD;
        let link = &self.watched.link;
        if link.mtu > most {
            return Err(format!("the MTU of {} is {}; lower it to {most}", link.name, link.mtu));
        }
        let mut guests = self.guests.lock().unwrap();
        guests.retain(|(_, view)| view.upgrade().is_some());
        let is_one = |(weak, memory): (&Weak<Memory>, &Arc<Memory>)| std::ptr::eq(weak.as_ptr(), Arc::as_ptr(memory));
        let are_these = |had: &[Weak<Memory>]| had.len() == memories.len() && had.iter().zip(memories).all(is_one);
        if let Some(view) = guests.iter().find(|(had, _)| are_these(had)).and_then(|(_, view)| view.upgrade()) {
            return Ok(view);
        }
        let chunks = Chunks::limited(CHUNKS[0], limit).expect("that is less than a chunk");
        let all: Vec<_> = std::iter::once(self.arena.memory()).chain(memories).cloned().collect();
        let view = UmemView::new(&all, chunks)?;
        guests.push((memories.iter().map(Arc::downgrade).collect(), view.downgrade()));
        Ok(view)
    }

    /// Lets only frames to `macs` and to groups go to the sockets, if `queue` asks for that; others go to the kernel. All
    /// queues that ask at the same time ask for the same addresses, as only a mapping of all queues is steered.
    pub(super) fn steer(&self, queue: usize, macs: Option<&[[u8; 6]]>) -> Result<(), String> {
        if macs.is_some() && self.is_zero_copy() {
            return Err(format!(
                "the hardware of {} fills buffers before frames can be steered by MAC address: set mode = \"copy\" at port \
                 \"{}\", or let the NIC steer and set steering = \"given\"",
                self.watched.link.name,
                self.site.name()
            ));
        }
        let mut steering = self.steering.lock().unwrap();
        steering.asked[queue] = macs.map(<[_]>::to_vec);
        // The last to ask knows best: the others will ask for the same.
        let wanted = macs.map(<[_]>::to_vec).or_else(|| steering.asked.iter().flatten().next().cloned());
        let wanted =
            wanted.map_or(xsk::Steering::All, |macs| xsk::Steering::Destinations { macs, groups: Groups::All });
        if steering.applied.as_ref() != Some(&wanted) {
            steering.applied = None;
            self.redirect.steer(&wanted).map_err(|error| error.to_string())?;
            steering.applied = Some(wanted);
        }
        Ok(())
    }
}
