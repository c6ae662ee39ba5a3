//! Ports: frames in bursts, to and from one device.

mod options;
mod pair;
mod ports;

pub use options::{Options, PortOptions};
pub use pair::Broken;
pub(crate) use pair::{BURST, Pair};
pub use ports::{OpenError, Ports, WaitError};

use crate::aggregate::{Drops, Join, Split};
use crate::memory::{Packet, Pool};
use std::path::PathBuf;
use std::rc::Rc;
use vhost_user::frontend::{Link, QueuePair};
use virtqueue::Negotiated;

/// What a port counts, since it was opened first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets received: frames, or what was in them if the port aggregates.
    pub received: u64,
    /// The frames that they came in.
    pub received_frames: u64,
    /// Packets given to the device.
    pub transmitted: u64,
    /// The frames that they went in.
    pub transmitted_frames: u64,
    /// Packets that [`Port::transmit_all`] dropped because the transmit queue was full.
    pub full: u64,
    /// Buffers that came back without a frame in them.
    pub malformed: u64,
    /// What a port that aggregates dropped.
    pub dropped: Drops,
}

/// One port. Ports are opened together, by [`Ports::open`].
pub struct Port {
    socket: PathBuf,
    link: Link,
    pairs: Vec<Pair>,
    pool: Rc<Pool>,
    /// The pair to receive from next, so that each gets its turn.
    turn: usize,
    counters: Counters,
    broken: Option<Broken>,
    /// Takes received aggregates, if the port aggregates, and makes those that are sent.
    split: Option<Box<Split>>,
    join: Option<Box<Join>>,
}

impl Port {
    fn new(options: &PortOptions, link: Link, pairs: Vec<QueuePair>, pool: &Rc<Pool>, counters: Counters) -> Port {
        let negotiated = link.negotiated();
        let pairs = (0..).zip(pairs).map(|(index, pair)| Pair::new(pair, pool, index, negotiated)).collect();
        let (aggregation, name) = (options.aggregation.as_ref(), options.name());
        Port {
            socket: options.socket.clone(),
            link,
            pairs,
            pool: pool.clone(),
            turn: 0,
            counters,
            broken: None,
            split: aggregation.map(|aggregation| Box::new(Split::new(aggregation))),
            join: aggregation.map(|aggregation| Box::new(Join::new(aggregation, &name))),
        }
    }

    /// Path of its socket.
    pub fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// What was negotiated.
    pub fn negotiated(&self) -> Negotiated {
        self.link.negotiated()
    }

    /// What it counted so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Appends what has arrived to `burst`, up to 32 frames of one queue; returns how many packets. Never waits. Aggregates
    /// are taken apart or not, as [`crate::Placement`] says.
    #[inline]
    pub fn receive(&mut self, burst: &mut Vec<Packet>) -> usize {
        if self.broken.is_some() {
            return 0;
        }
        let before = burst.len();
        for _ in 0..self.pairs.len() {
            self.turn = if self.turn + 1 < self.pairs.len() { self.turn + 1 } else { 0 };
            let pair = &mut self.pairs[self.turn];
            let outcome = match &mut self.split {
                Some(split) => split.receive(pair, &self.pool, burst, &mut self.counters),
                None => pair.receive(burst, BURST).map(|malformed| {
                    self.counters.malformed += malformed;
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

    /// A new packet of `len` bytes with whatever was in its buffer; `None` if it does not fit into one, or if all
    /// buffers are in use.
    pub fn alloc(&self, len: usize) -> Option<Packet> {
        Packet::allocate(&self.pool, len)
    }

    /// Buffers that no queue and no packet has, of those that all ports share.
    pub fn free_buffers(&self) -> usize {
        self.pool.free()
    }

    /// Sends a packet: the buffers themselves, which are freed when the device is done with them. A packet of other
    /// memory, received before a reconnect, is copied. Gives it back if there is no room in the queue. The device
    /// sees it after [`Port::flush`]. It goes as it is: [`Port::transmit_all`] joins.
    #[inline]
    pub fn transmit(&mut self, packet: Packet) -> Result<(), Packet> {
        let packets = packet.inside().map_or(1, |inside| inside.number);
        self.give(packet, packets.into())
    }

    /// The same for a frame that holds so many packets.
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
            // The packet is gone with the device.
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

    /// Sends all of `burst`, drops what there is no room for, and flushes. If the port aggregates, packets to one next hop
    /// are joined.
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

    /// Sends a frame that holds so many packets, or drops it.
    #[inline]
    pub(crate) fn send(&mut self, packet: Packet, packets: u64) {
        if self.give(packet, packets).is_err() {
            self.counters.full += packets;
        }
    }

    /// Counts a packet that is not sent.
    #[cold]
    pub(crate) fn drop_for(&mut self, reason: &'static str) {
        self.counters.dropped.add(reason, 1);
    }

    /// The queue pair that a packet goes to.
    #[inline]
    pub(crate) fn queue_of(&self, packet: &Packet) -> u16 {
        packet.queue() % self.pairs.len() as u16
    }

    pub(crate) fn pool(&self) -> &Rc<Pool> {
        &self.pool
    }

    /// Shows the device what was transmitted, and wakes it if it sleeps.
    #[inline]
    pub fn flush(&mut self) {
        self.pairs.iter_mut().for_each(Pair::flush);
    }

    /// Frees packets that the device has sent. Transmitting does so by itself when it needs room.
    pub fn reclaim(&mut self) {
        for pair in &mut self.pairs {
            if let Err(broken) = pair.reclaim() {
                self.broken = Some(broken);
            }
        }
    }

    /// Why there is nothing more to expect of this device, if so.
    fn fault(&self) -> Option<String> {
        match self.broken {
            Some(broken) => Some(format!("the device broke the ring: {broken}")),
            None if !self.link.is_connected() => Some("the device closed the connection".to_owned()),
            None => None,
        }
    }
}
