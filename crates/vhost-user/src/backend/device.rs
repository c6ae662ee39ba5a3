//! The device that one frontend sees: the state that the frontend has set so far, and the queues that run as a result.
//!
//! Messages come in any order. Each one only changes the recorded state; then the affected queues are checked again. A
//! running queue is stopped before anything about it changes, and resumes where it stopped.

use super::control::Control;
use super::filling::{self, Unfilled};
use super::holes::Holes;
use super::offer;
use super::pace::Effort;
use super::repeats::Repeats;
use super::vring::{Kick, StartError, Vring};
use super::{Exchange, Options, Queues, Wire};
use crate::descriptors::Exhausted;
use crate::event::{Event, EventError};
use crate::rate_limited_log::RateLimitedLog;
use crate::shared_object::SharedObject;
use rustix::fd::OwnedFd;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use vhost::vhost_user::VhostUserProtocolFeatures;
use virtqueue::memory::{MAX_REGIONS, Memory, MemoryError, Region};
use virtqueue::{Format, MAX_QUEUE_SIZE, Negotiated, features};

/// Error: a message that violates the protocol. It ends the session.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error(
        "there is no queue {index}: this port has {pairs} queue pair{s}, {queues} queues; give the guest no more (QEMU's \
         `queues=`), or set `queues` of the port to {wanted}",
        pairs = .queues / 2, s = if *.queues == 2 { "" } else { "s" }, wanted = .index / 2 + 1
    )]
    NoSuchQueue { index: u32, queues: usize },
    #[error("queue {index} cannot have {size} descriptors: 1 to {MAX_QUEUE_SIZE}, a power of two for split rings")]
    QueueSize { index: u32, size: u32 },
    #[error("features {0:#x} were not offered")]
    Features(u64),
    #[error("protocol features {0:#x} were not offered")]
    ProtocolFeatures(u64),
    #[error("{value} neither enables nor disables queue {index}")]
    Enable { index: u32, value: u32 },
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Unfilled(#[from] Unfilled),
    #[error(transparent)]
    Event(#[from] EventError),
    #[error(transparent)]
    Descriptors(#[from] Exhausted),
    #[error("the message has a body of {len} bytes, not {expected}")]
    Length { len: u32, expected: usize },
    #[error("an MTU of {mtu} bytes: this port has {least} to {most}; set `mtu` of the port to the guest's (QEMU's `host_mtu`)", least = LEAST_MTU)]
    Mtu { mtu: u64, most: u16 },
    #[error("it names {count} regions in a body of {len} bytes")]
    Regions { count: usize, len: usize },
    #[error("region {0} is empty, or ends behind the end of addresses")]
    Region(usize),
    #[error("it names {regions} regions, and brings {files} descriptors")]
    Files { regions: usize, files: usize },
    #[error("this device does not support it, and did not offer it")]
    Unsupported,
    #[error("queue {index} cannot be stopped: {why}")]
    Unstopped { index: usize, why: String },
    #[error("there is no such shared object")]
    NoObject,
    #[error("{0}")]
    Object(String),
    #[error("cannot answer: {0}")]
    Answer(std::io::Error),
}

/// The least MTU of a device (virtio 1.2 §5.1.4.1).
const LEAST_MTU: u64 = 68;

/// Cost to others of a shared object, in restarts of a queue: the function joins its group again, under the group's lock.
const OBJECT: u32 = 16;

/// See the module.
pub(super) struct Device {
    queues: Arc<dyn Queues>,
    pub(super) log: Arc<RateLimitedLog>,
    control: Arc<Control>,
    pub(super) rings: Vec<Vring>,
    offered: u64,
    offered_protocol_features: VhostUserProtocolFeatures,
    exchange: Option<Exchange>,
    mtu: Option<u16>,
    any_memory: bool,
    holes: Holes,
    memory: Option<Arc<Memory>>,
    pub(super) repeats: Repeats,
    /// Features that the frontend accepted.
    features: Option<u64>,
    pub(super) protocol_features: u64,
    /// Status of the guest's driver (virtio 1.2 §2.1), as the frontend told it.
    pub(super) status: u64,
    /// Whether the frontend has asked for the number of queue pairs.
    pub(super) counted: bool,
    described: String,
    /// Restarts of queues, or as much, since the last [`Device::take_effort`], see [`super::pace`].
    effort: u32,
    /// Processor time for pages since then.
    pages: Duration,
}

impl Device {
    pub(super) fn new(
        options: &Options,
        queues: Arc<dyn Queues>,
        log: Arc<RateLimitedLog>,
        control: Arc<Control>,
    ) -> Device {
        let rings = (0..2 * options.queue_pairs).map(|_| Vring::default()).collect();
        Device {
            queues,
            log,
            control,
            rings,
            offered: offer::features(options),
            offered_protocol_features: offer::protocol_features(options),
            exchange: options.exchange,
            mtu: options.mtu,
            any_memory: options.any_memory,
            holes: options.holes,
            memory: None,
            repeats: Repeats::default(),
            features: None,
            protocol_features: 0,
            status: 0,
            counted: false,
            described: String::new(),
            effort: 0,
            pages: Duration::ZERO,
        }
    }

    /// Returns and resets the cost to others since the last call. The session's thread has taken so much processor time so far.
    pub(super) fn take_effort(&mut self, time: Duration) -> Effort {
        Effort { restarts: std::mem::take(&mut self.effort), time, pages: std::mem::take(&mut self.pages) }
    }

    /// Returns the offered features.
    pub(super) fn offered(&self) -> u64 {
        self.offered
    }

    pub(super) fn offered_protocol_features(&self) -> VhostUserProtocolFeatures {
        self.offered_protocol_features
    }

    /// Checks the MTU that a guest gets. A port without an MTU takes any.
    pub(super) fn check_mtu(&self, mtu: u64) -> Result<(), Refused> {
        let most = self.mtu.unwrap_or(u16::MAX);
        if (LEAST_MTU..=most.into()).contains(&mtu) { Ok(()) } else { Err(Refused::Mtu { mtu, most }) }
    }

    pub(super) fn set_features(&mut self, accepted: u64) -> Result<(), Refused> {
        let unknown = accepted & !self.offered();
        if unknown != 0 {
            return Err(Refused::Features(unknown));
        }
        if self.features != Some(accepted) {
            self.change_all(|device| device.features = Some(accepted))?;
        }
        Ok(())
    }

    pub(super) fn set_protocol_features(&mut self, accepted: u64) -> Result<(), Refused> {
        let unknown = accepted & !self.offered_protocol_features().bits();
        if unknown != 0 {
            return Err(Refused::ProtocolFeatures(unknown));
        }
        self.protocol_features = accepted;
        Ok(())
    }

    /// Returns a file for a function that exchanges buffers.
    pub(super) fn shared_object(&mut self, name: &Uuid) -> Result<OwnedFd, Refused> {
        self.effort = self.effort.saturating_add(OBJECT);
        let object = SharedObject::named(name).ok_or(Refused::NoObject)?;
        self.queues.shared_object(object).map_err(Refused::Object)
    }

    pub(super) fn set_size(&mut self, index: u32, size: u32) -> Result<(), Refused> {
        let at = self.index(index)?;
        let refused = Refused::QueueSize { index, size };
        let size = u16::try_from(size).ok().filter(|n| (1..=MAX_QUEUE_SIZE).contains(n)).ok_or(refused)?;
        let split = self.features.is_some_and(|f| Negotiated(f).format() == Format::Split);
        if split && !size.is_power_of_two() {
            return Err(Refused::QueueSize { index, size: size.into() });
        }
        if self.rings[at].size != Some(size) {
            self.change(at, |ring| ring.size = Some(size))?;
        }
        Ok(())
    }

    pub(super) fn memory(&self) -> Option<&Memory> {
        self.memory.as_deref()
    }

    /// Refuses files that are not memory, unless any may be shared: a worker that reads one could block.
    pub(super) fn check_memory(&self, regions: &[Region]) -> Result<(), Refused> {
        let is_fit = |region: &Region| match self.exchange {
            Some(Exchange::Pages { device }) if region.device() == Some(device) => true,
            _ => self.any_memory || region.is_memory(),
        };
        match regions.iter().find(|region| !is_fit(region)) {
            Some(region) => Err(MemoryError::NotMemory { guest_addr: region.guest_addr }.into()),
            None => Ok(()),
        }
    }

    /// Replaces all memory. The queues run in the old one until all of the new one exists.
    pub(super) fn set_memory(&mut self, memory: Memory) -> Result<(), Refused> {
        self.effort = self.effort.saturating_add(1);
        let (took, filled) = filling::fill(&memory, self.holes, &self.control, &self.log);
        self.pages += took;
        filled?;
        self.change_all(|device| device.memory = Some(Arc::new(memory)))
    }

    /// Resets everything but the memory, which a frontend that adds and removes regions one by one expects to stay.
    pub(super) fn reset(&mut self) -> Result<(), Refused> {
        self.halt_all()?;
        self.rings.iter_mut().for_each(|ring| *ring = Vring::default());
        self.features = None;
        self.status = 0;
        Ok(())
    }

    /// Returns a hint to log if the frontend leaves now. A QEMU configured with too many queues asks for their number,
    /// disconnects without a message and reconnects at once.
    pub(super) fn too_few_queues(&self) -> Option<String> {
        let pairs = self.rings.len() / 2;
        let plural = if pairs == 1 { "" } else { "s" };
        (self.counted && self.features.is_none()).then(|| {
            format!(
                "it was told that this port has {pairs} queue pair{plural}, and may want more: give the guest no more \
                 (QEMU's `queues=`), or raise `queues` of the port"
            )
        })
    }

    pub(super) fn index(&self, index: u32) -> Result<usize, Refused> {
        let queues = self.rings.len();
        usize::try_from(index).ok().filter(|&at| at < queues).ok_or(Refused::NoSuchQueue { index, queues })
    }

    /// Sets how the guest kicks a queue. A running queue keeps running if its owner can replace the descriptor.
    pub(super) fn set_kick(&mut self, at: usize, kick: Kick) -> Result<(), Refused> {
        let ring = &mut self.rings[at];
        if ring.running {
            let wire = match &kick {
                Kick::Event(fd) => Some(fd.clone()),
                _ => None,
            };
            let same = matches!((&ring.kick, &kick), (Kick::Polled, Kick::Polled));
            self.effort = self.effort.saturating_add(u32::from(!same));
            if same || self.queues.rewire(at, Wire::Kick(wire)).is_ok() {
                ring.kick = kick;
                return Ok(());
            }
        }
        self.change(at, |ring| ring.kick = kick)
    }

    /// Sets the call descriptor of a queue, like [`Device::set_kick`].
    pub(super) fn set_call(&mut self, at: usize, call: Option<Event>) -> Result<(), Refused> {
        let ring = &mut self.rings[at];
        if ring.running {
            // Twice: whether its signals take long is known by the second one, before a worker sends any.
            (0..2).for_each(|_| call.iter().for_each(|call| call.notify()));
        }
        if ring.running && self.queues.rewire(at, Wire::Call(call.clone())).is_ok() {
            // Notifications for buffers used so far may have gone to the old descriptor only.
            call.iter().for_each(|call| call.notify());
            ring.call = call;
            return Ok(());
        }
        self.change(at, |ring| ring.call = call)
    }

    /// Sets where the ring starts. A ring that runs and started there keeps running.
    pub(super) fn set_base(&mut self, at: usize, base: u32) -> Result<(), Refused> {
        let ring = &self.rings[at];
        if ring.running && ring.base == base { Ok(()) } else { self.change(at, |ring| ring.base = base) }
    }

    /// Changes the state of a ring while it is stopped.
    pub(super) fn change(&mut self, at: usize, apply: impl FnOnce(&mut Vring)) -> Result<(), Refused> {
        self.halt(at)?;
        apply(&mut self.rings[at]);
        self.resume(at);
        Ok(())
    }

    /// Changes state that all rings depend on while all of them are stopped.
    fn change_all(&mut self, apply: impl FnOnce(&mut Self)) -> Result<(), Refused> {
        self.halt_all()?;
        apply(self);
        (0..self.rings.len()).for_each(|at| self.resume(at));
        Ok(())
    }

    /// Stops a ring if it runs, and records where.
    pub(super) fn halt(&mut self, at: usize) -> Result<(), Refused> {
        let ring = &mut self.rings[at];
        if std::mem::take(&mut ring.running) {
            let stopped = self.queues.stop(at).map_err(|why| Refused::Unstopped { index: at, why })?;
            if let Some(base) = stopped {
                ring.base = base;
                ring.resumed = true;
            }
        }
        Ok(())
    }

    /// Stops all rings, even if stopping one of them fails.
    pub(super) fn halt_all(&mut self) -> Result<(), Refused> {
        (0..self.rings.len()).map(|at| self.halt(at)).fold(Ok(()), Result::and)
    }

    /// Starts a ring if it is fully set up and enabled.
    fn resume(&mut self, at: usize) {
        let (Some(features), Some(memory)) = (self.features, &self.memory) else { return };
        let ring = &mut self.rings[at];
        let started = match ring.setup(features, memory) {
            Ok(None) => {
                ring.refused = None;
                return;
            }
            Ok(Some(setup)) => {
                self.effort = self.effort.saturating_add(self.queues.weight());
                self.queues.start(at, setup).map_err(StartError::Setup)
            }
            Err(e) => Err(e),
        };
        match started {
            Ok(()) => {
                ring.running = true;
                ring.refused = None;
                // The guest may have missed the notification for buffers used just before the stop.
                if let (true, Some(call)) = (ring.resumed, &ring.call) {
                    call.notify();
                    ring.resumed = false;
                }
            }
            Err(e) => {
                let why = e.to_string();
                if ring.refused.as_ref() != Some(&why) {
                    self.log.warn(format_args!("queue {at} stays stopped: {why}"));
                }
                ring.refused = Some(why);
            }
        }
    }

    /// Reports the state to the owner if it has changed since the last report.
    pub(super) fn report(&mut self) {
        let line = self.describe();
        if line != self.described {
            self.described.clone_from(&line);
            self.queues.describe(line);
        }
    }

    fn describe(&self) -> String {
        let mut line = String::new();
        match self.features.map(Negotiated) {
            None => line.push_str("negotiating"),
            Some(negotiated) => {
                let _ = write!(line, "{}", negotiated.format());
                let names = [
                    (features::MRG_RXBUF, "mrg_rxbuf"),
                    (features::INDIRECT_DESC, "indirect"),
                    (features::EVENT_IDX, "event_idx"),
                    (features::IN_ORDER, "in_order"),
                    (features::EXCHANGE, "exchange"),
                ];
                for (_, name) in names.iter().filter(|(bit, _)| negotiated.has(*bit)) {
                    let _ = write!(line, ", {name}");
                }
            }
        }
        let pairs = self.rings.chunks(2).filter(|pair| pair.iter().all(|ring| ring.running)).count();
        let regions = self.memory.as_ref().map_or(0, |m| m.regions().len());
        let plural = |n| if n == 1 { "" } else { "s" };
        let _ = write!(line, "; {pairs} pair{}, {regions} region{}", plural(pairs), plural(regions));
        for (at, why) in self.rings.iter().enumerate().filter_map(|(at, r)| Some((at, r.refused.as_ref()?))) {
            let _ = write!(line, "; queue {at} stopped: {why}");
        }
        line
    }

    pub(super) fn memory_slots() -> u64 {
        MAX_REGIONS as u64
    }
}
