//! Ports: bursts of frames to and from one device.

mod options;
mod pair;
mod ports;
mod wait;

pub use options::{Exchange, Options, PortOptions};
pub use pair::Broken;
pub(crate) use pair::{BURST, Pair};
pub(crate) use ports::WorkerPorts;
pub use ports::{OpenError, Ports};
pub use wait::WaitError;
pub(crate) use wait::{wait, wait_beside};

use crate::aggregate::{Drops, Join, Split};
use crate::memory::{Packet, Pool};
use std::path::PathBuf;
use std::rc::Rc;
use vhost_user::frontend::QueuePair;
use virtqueue::Negotiated;

/// The counters of a port since it was first opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets received: frames, or the packets in them if the port aggregates.
    pub received: u64,
    /// Frames received.
    pub received_frames: u64,
    /// Packets sent to the device.
    pub transmitted: u64,
    /// Frames sent.
    pub transmitted_frames: u64,
    /// Packets that [`Port::transmit_all`] dropped because the transmit queue was full.
    pub full: u64,
    /// Buffers that the device returned without a frame.
    pub malformed: u64,
    /// Packets and aggregates dropped by a port that aggregates, and received packets dropped by a crew.
    pub dropped: Drops,
}

impl Counters {
    fn add(&mut self, other: &Counters) {
        let Counters { received, received_frames, transmitted, transmitted_frames, full, malformed, dropped } = other;
        self.received += received;
        self.received_frames += received_frames;
        self.transmitted += transmitted;
        self.transmitted_frames += transmitted_frames;
        self.full += full;
        self.malformed += malformed;
        dropped.named().for_each(|(reason, count)| self.dropped.add(reason, count));
    }
}

/// One port, with the queue pairs of one worker. [`Ports::open`] opens all ports together.
pub struct Port {
    socket: PathBuf,
    negotiated: Negotiated,
    pairs: Vec<Pair>,
    pool: Rc<Pool>,
    /// The pair polled last: pairs take turns.
    turn: usize,
    counters: Counters,
    broken: Option<Broken>,
    /// The receiving and the sending state, if the port aggregates.
    split: Option<Box<Split>>,
    join: Option<Box<Join>>,
}

impl Port {
    fn new(
        options: &PortOptions,
        negotiated: Negotiated,
        pairs: impl Iterator<Item = QueuePair>,
        pool: &Rc<Pool>,
    ) -> Port {
        let pairs = (0..).zip(pairs).map(|(index, pair)| Pair::new(pair, pool, index, negotiated)).collect();
        let (aggregation, name) = (options.aggregation.as_ref(), options.name());
        Port {
            socket: options.socket.clone(),
            negotiated,
            pairs,
            pool: pool.clone(),
            turn: 0,
            counters: Counters::default(),
            broken: None,
            split: aggregation.map(|aggregation| Box::new(Split::new(aggregation))),
            join: aggregation.map(|aggregation| Box::new(Join::new(aggregation, &name))),
        }
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// Returns the negotiated features.
    pub fn negotiated(&self) -> Negotiated {
        self.negotiated
    }

    /// Returns its counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Appends received packets to `burst`, from up to 32 frames of one queue, and returns their number. Never waits.
    /// [`crate::Splitter`] decides whether aggregates are split.
    #[inline]
    pub fn receive(&mut self, burst: &mut Vec<Packet>) -> usize {
        if self.broken.is_some() {
            return 0;
        }
        let before = burst.len();
        for _ in 0..self.pairs.len() {
            // A pair whose frames wait has not ended its turn.
            let has_more = self.split.as_ref().is_some_and(|split| split.waits());
            self.turn = if has_more {
                self.turn
            } else if self.turn + 1 < self.pairs.len() {
                self.turn + 1
            } else {
                0
            };
            let pair = &mut self.pairs[self.turn];
            let outcome = match &mut self.split {
                Some(split) => split.receive(pair, &self.pool, burst, &mut self.counters),
                None => pair.receive(burst, BURST, &mut self.counters.malformed).map(|()| {
                    self.counters.received += (burst.len() - before) as u64;
                    self.counters.received_frames += (burst.len() - before) as u64;
                }),
            };
            if let Err(broken) = outcome {
                self.broken = Some(broken);
            }
            if burst.len() > before {
                break;
            }
        }
        burst.len() - before
    }

    /// Allocates a packet of `len` bytes with arbitrary contents; `None` if it does not fit into one buffer, or if all
    /// buffers are in use.
    pub fn alloc(&self, len: usize) -> Option<Packet> {
        Packet::allocate(&self.pool, len)
    }

    /// Returns the number of free buffers in the pool that all ports of a worker share.
    pub fn free_buffers(&self) -> usize {
        self.pool.free()
    }

    /// Sends a packet without a copy: its buffers are freed when the device has used them. A packet in other memory,
    /// received before a reconnect, is copied. Returns the packet if there is no room in the queue. The device sees it
    /// after [`Port::flush`]. Only [`Port::transmit_all`] joins packets.
    #[inline]
    pub fn transmit(&mut self, packet: Packet) -> Result<(), Packet> {
        let packets = packet.inside().map_or(1, |inside| inside.number);
        self.give(packet, packets.into())
    }

    /// Same as [`Self::transmit`], for a frame that holds `packets` packets.
    #[inline]
    fn give(&mut self, packet: Packet, packets: u64) -> Result<(), Packet> {
        if self.broken.is_some() {
            return Err(packet);
        }
        let packet = if packet.segments().all(|s| s.is_from(&self.pool)) { packet } else { self.copy(packet)? };
        let pair = usize::from(self.queue_of(&packet));
        match self.pairs[pair].transmit(packet) {
            Ok(Ok(())) => {
                self.counters.transmitted += packets;
                self.counters.transmitted_frames += 1;
                Ok(())
            }
            Ok(Err(packet)) => Err(packet),
            // The packet is lost with the device.
            Err(broken) => {
                self.broken = Some(broken);
                Ok(())
            }
        }
    }

    #[cold]
    fn copy(&self, packet: Packet) -> Result<Packet, Packet> {
        let Some(mut copy) = self.alloc(packet.total_len()) else { return Err(packet) };
        packet.copy_to(0, &mut copy);
        copy.set_queue(packet.queue());
        Ok(copy)
    }

    /// Sends all of `burst`, drops packets that there is no room for, and flushes. If the port aggregates, joins packets to
    /// one next hop.
    #[inline]
    pub fn transmit_all(&mut self, burst: &mut Vec<Packet>) {
        match self.join.take() {
            Some(mut join) => {
                join.transmit(self, burst);
                self.join = Some(join);
            }
            None => burst.drain(..).for_each(|packet| self.send(packet, 1)),
        }
        self.flush();
    }

    /// Sends a frame that holds `packets` packets, or drops it.
    #[inline]
    pub(crate) fn send(&mut self, packet: Packet, packets: u64) {
        if self.give(packet, packets).is_err() {
            self.counters.full += packets;
        }
    }

    /// Counts packets that are not sent.
    #[cold]
    pub(crate) fn drop_for(&mut self, reason: &'static str, count: u64) {
        self.counters.dropped.add(reason, count);
    }

    /// Reports whether it splits and joins packets.
    pub(crate) fn aggregates(&self) -> bool {
        self.split.is_some()
    }

    #[inline]
    pub(crate) fn queue_of(&self, packet: &Packet) -> u16 {
        packet.queue() % self.pairs.len() as u16
    }

    pub(crate) fn pool(&self) -> &Rc<Pool> {
        &self.pool
    }

    /// Publishes transmitted packets to the device, and kicks it if it sleeps.
    #[inline]
    pub fn flush(&mut self) {
        self.pairs.iter_mut().for_each(Pair::flush);
    }

    /// Frees packets that the device has sent. [`Self::transmit`] does so when it needs room.
    pub fn reclaim(&mut self) {
        for pair in &mut self.pairs {
            if let Err(broken) = pair.reclaim() {
                self.broken = Some(broken);
            }
        }
    }

    /// Reports whether the device broke a ring, so that it is not used any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }
}
