//! The device of a DPDK port, as all of its queues share it.

use super::left::{self, DEVICE};
use super::reception::{HEADROOM, Reception};
use super::shared::SharedMemory;
use super::transmission::Transmission;
use super::tx::Limits;
use super::{Settings, environment};
use crate::drops::Reason;
use crate::port::Site;
use crate::port::offloads::Chosen;
use crate::port::pool::Pool;
use crate::port::unfinished::Unfinished;
use crate::port::zero_copy::{Direction, LEND_ROOM};
use ::dpdk::{Bus, Config, Info, Iova, Kind, Receive, Rule, Transmit};
use packet::offload::Offloads;
use packet::{MAX_BURST, MacAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};
use virtqueue::NET_HEADER;
use virtqueue::memory::{Arena, Memory};

/// Ethernet header and a VLAN tag: the bytes of a frame beyond the MTU.
const OVERHEAD: u32 = 18;

/// Bytes for a frame in each buffer, as NICs are told; their steps are powers of two.
const ROOM: u32 = 2048;

/// The same for devices in software, which have no steps: a guest's buffer of 2048 bytes has room for it after the virtio header.
const SOFTWARE_ROOM: u32 = ROOM - NET_HEADER;

/// Distance between own chunks that frames are received into, and between those that they are sent from: odd numbers of cache lines, so
/// that frames spread over all sets of a cache.
const RECEIVE_STRIDE: u32 = 35 * 64;
const TRANSMIT_STRIDE: u32 = 33 * 64;
const _: () = assert!(HEADROOM as u32 + ROOM <= RECEIVE_STRIDE);

/// Time for a device to send what it has before its loans are ended by force.
const PATIENCE: Duration = Duration::from_millis(50);

/// Drivers that have copied each frame, or sent it, when they return from sending.
const KEEP_NOTHING: [&str; 5] = ["net_af_packet", "net_tap", "net_memif", "net_pcap", "net_null"];

/// The device of an open port.
pub(super) struct Device {
    pub(super) site: Arc<dyn Site>,
    settings: Settings,
    port: Mutex<::dpdk::Device>,
    info: Info,
    iova: Iova,
    arena: Arc<Arena>,
    /// The switch's own chunks.
    _own: SharedMemory,
    /// Of all queues.
    chunks: Chunks,
    places: Vec<Places>,
    /// Memories of guests: the queues of a guest share one.
    guests: Mutex<Vec<Weak<SharedMemory>>>,
    rules: Mutex<Rules>,
    mtu: u32,
    in_place: bool,
    /// Work on frames that the device does.
    offloads: Offloads,
    pub(super) unfinished: Option<Unfinished>,
    /// Whether loans could only be ended by closing the device.
    is_closed: AtomicBool,
    pub(super) failed: AtomicBool,
}

/// Numbers of own chunks of a queue.
#[derive(Clone, Copy)]
struct Chunks {
    receive: u16,
    transmit: u16,
    /// Of those that are received into, those that a burst may hold: the device needs the others.
    held_at_most: u16,
}

/// Addresses of a queue's own chunks in the arena.
#[derive(Clone, Copy)]
struct Places {
    receive: u64,
    transmit: u64,
}

/// Rules of the NIC, and the queues whose rules it has refused, each with the reason.
#[derive(Default)]
struct Rules {
    taken: Vec<Rule>,
    refused: Vec<(u16, String)>,
}

/// Both directions of a queue, before halves have them.
pub(super) struct Sides {
    pub(super) receive: Box<Reception>,
    pub(super) transmit: Box<Transmission>,
}

impl Device {
    /// Opens the device, and starts it. Returns its queues.
    pub(super) fn open(settings: &Settings, site: &Arc<dyn Site>) -> Result<(Arc<Device>, Vec<Sides>), String> {
        let text = |error: ::dpdk::Error| error.to_string();
        let dpdk = environment::started()?;
        let mut port = dpdk.probe(&settings.device).map_err(text)?;
        let info = port.info().clone();
        let there = info.receive_queues.min(info.transmit_queues);
        if settings.queues > there {
            return Err(format!("device {} has {there} queues, not {}; lower `queues`", info.name, settings.queues));
        }
        let chosen = Chosen::new(&**site, settings.offloads).limited(left::offloads(info.abilities), DEVICE);
        let halves = port.open(&config(settings, &info, chosen.offloads)).map_err(text)?;
        let chunks = Chunks::of(&halves);
        let bytes = |count: u16, stride: u32| u64::from(count) * u64::from(stride);
        let [receive, transmit] = [bytes(chunks.receive, RECEIVE_STRIDE), bytes(chunks.transmit, TRANSMIT_STRIDE)];
        let pair = receive + transmit + 2 * 64;
        let mut arena = Arena::new(u64::from(settings.queues) * pair, true).map_err(|error| error.to_string())?;
        let mut place = |bytes| arena.allocate(bytes, 64).ok_or("its memory is too small");
        let places = (0..settings.queues).map(|_| Ok(Places { receive: place(receive)?, transmit: place(transmit)? }));
        let places = places.collect::<Result<Vec<_>, &str>>()?;
        let mut device = Device {
            _own: SharedMemory::new(&port, arena.memory())?,
            site: site.clone(),
            settings: settings.clone(),
            mtu: settings.mtu.map_or(1500, u32::from),
            unfinished: info.unfinished.then(Unfinished::default),
            iova: dpdk.iova(),
            port: Mutex::new(port),
            info,
            arena: Arc::new(arena),
            chunks,
            places,
            guests: Mutex::default(),
            rules: Mutex::default(),
            in_place: false,
            offloads: chosen.offloads,
            is_closed: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        };
        let mut sides = device.start(halves)?;
        let keeps_nothing = KEEP_NOTHING.contains(&device.info.driver.as_str());
        device.in_place = keeps_nothing || sides.iter_mut().all(|side| side.transmit.queue.clean());
        site.set_offloads(chosen.stats());
        Ok((Arc::new(device), sides))
    }

    /// Starts the device, whose queues have just been set up, with own chunks in them.
    fn start(&self, halves: Vec<(Receive, Transmit)>) -> Result<Vec<Sides>, String> {
        let mut sides = Vec::new();
        for (index, (receive, transmit)) in halves.into_iter().enumerate() {
            let mut reception = Reception::new(receive, self.chunks.receive);
            reception.lend_own(&self.pool(index, Direction::ToGuest)?);
            let most = transmit.ring() - transmit.ring() / 4;
            let most = most.min(virtqueue::MAX_QUEUE_SIZE.into()) as u16;
            let transmission = Transmission::new(transmit, self.chunks.transmit, most);
            sides.push(Sides { receive: Box::new(reception), transmit: Box::new(transmission) });
        }
        self.run(&self.port())?;
        Ok(sides)
    }

    /// Starts the device, which has been set up, or has stopped.
    fn run(&self, port: &::dpdk::Device) -> Result<(), String> {
        port.start().map_err(|error| error.to_string())?;
        if let Err(why) = port.set_promiscuous(true) {
            tracing::warn!(
                "port \"{}\": frames to other addresses than the device's may not arrive: {why}",
                self.site.name()
            );
        }
        self.add_rules(port);
        Ok(())
    }

    /// Starts a device again that has to register memory of guests, or to forget it.
    pub(super) fn register(&self) -> Result<(), String> {
        let port = self.port();
        if self.is_closed.load(Ordering::Relaxed) || port.has_registered() {
            return Ok(());
        }
        port.stop().map_err(|error| error.to_string())?;
        self.run(&port)
    }

    /// Has the device, which started, bring frames to queues by the rules of the configuration.
    fn add_rules(&self, port: &::dpdk::Device) {
        let mut rules = Rules::default();
        for rule in &self.settings.steer {
            match port.steer(rule.mac.0, rule.queue) {
                Ok(taken) => rules.taken.push(taken),
                Err(why) => {
                    let why = format!("frames to {} are not steered to queue {}: {why}", rule.mac, rule.queue);
                    tracing::warn!("port \"{}\": {why}", self.site.name());
                    rules.refused.push((rule.queue, why));
                }
            }
        }
        *self.rules.lock().unwrap() = rules;
    }

    fn port(&self) -> MutexGuard<'_, ::dpdk::Device> {
        self.port.lock().unwrap()
    }

    /// Returns the own chunks of a queue.
    pub(super) fn pool(&self, index: usize, direction: Direction) -> Result<Pool, String> {
        let (Places { receive, transmit }, chunks) = (self.places[index], self.chunks);
        let (first, size, count) = match direction {
            Direction::ToGuest => (receive, RECEIVE_STRIDE, chunks.receive),
            Direction::FromGuest => (transmit, TRANSMIT_STRIDE, chunks.transmit),
        };
        let pool = Pool::new(self.arena.clone(), first, size, count, |host, _| Some(host));
        pool.ok_or_else(|| "its memory is in pieces".to_owned())
    }

    /// Returns the reason why frames can't be steered by their addresses.
    pub(super) fn cannot_steer(&self) -> String {
        format!(
            "device {} fills buffers before frames can be steered by MAC address: let it steer by [[port.steer]], and set steering = \
             \"given\"",
            self.info.name
        )
    }

    /// Returns the bytes that the device may write to a buffer, from the place of the frame.
    pub(super) fn room(&self) -> u32 {
        room(&self.info)
    }

    pub(super) fn held_at_most(&self) -> u16 {
        self.chunks.held_at_most
    }

    /// Returns what the device sends.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            longest: self.mtu + OVERHEAD,
            chains: self.info.chains,
            in_place: self.in_place,
            offloads: self.offloads,
        }
    }

    /// Lets the device reach a guest's memory, if it can fill buffers there for this queue.
    pub(super) fn share(&self, queue: usize, memory: &Arc<Memory>) -> Result<Arc<SharedMemory>, String> {
        let name = &self.info.name;
        // The kernel keeps the pages of memory that is registered.
        let is_guarded = self.iova == Iova::Virtual || self.info.bus == Bus::Vdev || self.info.registers;
        if !is_guarded && !self.settings.maps_without_iommu {
            return Err(format!(
                "no IOMMU guards memory from {name}: a guest could take pages back that the device still writes to; bind it to vfio-pci, with \
                 an IOMMU, or set `unsafe-map-without-iommu` of the port"
            ));
        }
        let most = LEND_ROOM - NET_HEADER - OVERHEAD;
        if self.mtu > most {
            return Err(format!("the MTU of {name} is {}; lower it to {most}", self.mtu));
        }
        if let Some(why) = &self.info.own_only {
            return Err(format!("{name} gets no buffers of guests: {why}"));
        }
        // Frames for others could land in the guest's buffers.
        if let Some((_, why)) =
            self.rules.lock().unwrap().refused.iter().find(|(refused, _)| usize::from(*refused) == queue)
        {
            return Err(why.clone());
        }
        let mut guests = self.guests.lock().unwrap();
        guests.retain(|known| known.strong_count() > 0);
        if let Some(known) = guests.iter().filter_map(Weak::upgrade).find(|known| known.is_of(memory)) {
            return Ok(known);
        }
        let shared = Arc::new(SharedMemory::new(&self.port(), memory)?);
        guests.push(Arc::downgrade(&shared));
        Ok(shared)
    }

    /// Ends all loans of a queue, of which no half has either side. When this returns, nothing fills or reads a guest's buffers. What had
    /// to be stopped for that is in the log: other queues were without it.
    pub(super) fn end_loans(&self, index: usize, sides: &mut Sides) -> Result<(), String> {
        let began = Instant::now();
        if let Some(stopped) = self.stop_for_loans(index, sides)? {
            let (name, took) = (self.site.name(), began.elapsed().as_millis());
            tracing::info!("port \"{name}\": {stopped} to end the loans of queue {index}, within {took} ms");
        }
        Ok(())
    }

    /// Stops as little as possible until all loans of a queue have ended, and returns what that was. Drivers differ in how they give
    /// buffers back, and some only say that they have done it, so this counts.
    fn stop_for_loans(
        &self,
        index: usize,
        Sides { receive, transmit }: &mut Sides,
    ) -> Result<Option<&'static str>, String> {
        let mut out = |patience| receive.take_back() + transmit.end(patience);
        if out(PATIENCE) == 0 {
            return Ok(None);
        }
        let mut port = self.port();
        let queue = index as u16;
        if port.stop_receive(queue).is_ok() {
            let left = out(Duration::ZERO);
            if port.start_receive(queue).is_ok() && left == 0 {
                return Ok(Some("the queue was stopped"));
            }
        }
        if port.stop().is_ok() {
            let left = out(Duration::ZERO);
            if left == 0 && self.run(&port).is_ok() {
                return Ok(Some("the device was stopped"));
            }
        }
        self.is_closed.store(true, Ordering::Relaxed);
        port.close();
        match out(Duration::ZERO) {
            0 => Ok(Some("the device was closed")),
            // Its memory is taken away from it, and the IOMMU refuses whatever it may still do.
            _ if self.info.bus == Bus::Pci && self.iova == Iova::Virtual => {
                Ok(Some("the device was closed, and the IOMMU keeps it from buffers that it has not given back,"))
            }
            left => Err(format!("device {} keeps {left} buffers although it is closed", self.info.name)),
        }
    }

    /// Opens the device again if it was closed to end loans. Returns the queue; a port of several queues is opened again as a whole.
    pub(super) fn reopen(&self) -> Result<Option<Sides>, String> {
        if !self.is_closed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if self.settings.queues > 1 {
            return Err(format!("device {} was closed to end loans of another queue", self.info.name));
        }
        let text = |error: ::dpdk::Error| error.to_string();
        let halves = {
            let mut port = self.port();
            port.reattach().map_err(text)?;
            port.open(&config(&self.settings, &self.info, self.offloads)).map_err(text)?
        };
        let sides = self.start(halves)?;
        self.is_closed.store(false, Ordering::Relaxed);
        Ok(sides.into_iter().next())
    }

    /// Has the port opened again.
    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Returns the reason why the port is down, if it is.
    pub(super) fn trouble(&self) -> Option<String> {
        // The device starts again.
        let is_up = self.is_closed.load(Ordering::Relaxed) || self.port().link().up;
        (!is_up).then(|| format!("the link of device {} is down", self.info.name))
    }

    /// Returns the device's address, and its speed in megabits per second.
    pub(super) fn interface(&self) -> (MacAddr, Option<u32>) {
        let port = self.port();
        (MacAddr(port.mac()), port.link().speed)
    }

    /// Returns the numbers of frames that were lost since the device was attached, each with the reason.
    pub(super) fn losses(&self) -> [(Reason, u64); 3] {
        let port = self.port();
        let (received, sent) = port.dropped();
        [(Reason::DeviceLoss, port.stats().missed), (Reason::TooLong, received), (Reason::Refused, sent)]
    }

    /// Describes the port for display.
    pub(super) fn describe(&self) -> String {
        let Info { name, driver, .. } = &self.info;
        let rules = self.rules.lock().unwrap();
        let taken = if rules.taken.is_empty() { String::new() } else { format!(", flow rules: {}", rules.taken.len()) };
        let refused: String = rules.refused.iter().map(|(_, why)| format!(", {why}")).collect();
        let late = if self.in_place {
            ""
        } else {
            ", frames of guests are copied when they are sent, as the driver returns buffers late"
        };
        let guarded = match (self.info.bus, self.iova) {
            (Bus::Vdev, _) => "",
            (_, Iova::Virtual) => ", behind an IOMMU",
            (_, Iova::Physical) => ", without an IOMMU",
        };
        let checksums = if self.unfinished.as_ref().is_some_and(Unfinished::is_seen) {
            ", the switch computes checksums that the sender leaves to hardware (there, `ethtool -K END tx off`)"
        } else {
            ""
        };
        format!("device {name}, driver {driver}, MTU {}{guarded}{taken}{refused}{late}{checksums}", self.mtu)
    }
}

impl Chunks {
    /// Returns the numbers of chunks that queues need.
    fn of(halves: &[(Receive, Transmit)]) -> Chunks {
        let burst = 2 * MAX_BURST;
        let receive = |queue: &Receive| {
            let (reserve, most) = (queue.reserve(), queue.room(Kind::Own).min(u16::MAX.into()));
            let wanted = (reserve + queue.ring() + burst).min(most);
            (wanted, wanted.saturating_sub(reserve))
        };
        let [mut count, mut held] = [0, 0];
        for (queue, _) in halves {
            let (wanted, spare) = receive(queue);
            (count, held) = (count.max(wanted), held.max(spare));
        }
        // A ring may be full of frames that were sent, which come back when others are sent.
        let transmit = halves.iter().map(|(_, queue)| queue.ring() + burst).max().unwrap_or(burst);
        Chunks { receive: count as u16, transmit: transmit as u16, held_at_most: held as u16 }
    }
}

/// Returns the bytes of a buffer that the device has for a frame.
fn room(info: &Info) -> u32 {
    if info.bus == Bus::Vdev { SOFTWARE_ROOM } else { ROOM }
}

/// Returns how the device is set up, which does this work.
fn config(settings: &Settings, info: &Info, work: Offloads) -> Config {
    Config {
        queues: settings.queues,
        receive_size: settings.queue_size,
        transmit_size: settings.queue_size,
        mtu: settings.mtu,
        interrupts: true,
        rss: settings.queues > 1,
        room: room(info),
        work: left::abilities(work),
    }
}
