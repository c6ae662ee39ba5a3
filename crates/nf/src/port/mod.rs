//! Ports: frames in bursts, to and from one device.

mod options;
mod pair;
mod ports;

pub use options::{Options, PortOptions};
pub use pair::Broken;
pub use ports::{OpenError, Ports, WaitError};

use crate::memory::{Packet, Pool};
use pair::Pair;
use std::path::PathBuf;
use std::rc::Rc;
use vhost_user::frontend::{Link, QueuePair};
use virtqueue::{NET_HEADER, Negotiated};

/// What a port counts, since it was opened first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames received.
    pub received: u64,
    /// Frames given to the device.
    pub transmitted: u64,
    /// Frames that [`Port::transmit_all`] dropped because the transmit queue was full.
    pub full: u64,
    /// Buffers that came back without a frame in them.
    pub malformed: u64,
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
}

impl Port {
    fn new(socket: PathBuf, link: Link, pairs: Vec<QueuePair>, pool: &Rc<Pool>, counters: Counters) -> Port {
        let negotiated = link.negotiated();
        let pairs = (0..).zip(pairs).map(|(index, pair)| Pair::new(pair, pool, index, negotiated)).collect();
        Port { socket, link, pairs, pool: pool.clone(), turn: 0, counters, broken: None }
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

    /// Appends what has arrived to `burst`, up to 32 frames of one queue; returns how many. Never waits.
    #[inline]
    pub fn receive(&mut self, burst: &mut Vec<Packet>) -> usize {
        if self.broken.is_some() {
            return 0;
        }
        let before = burst.len();
        for _ in 0..self.pairs.len() {
            self.turn = if self.turn + 1 < self.pairs.len() { self.turn + 1 } else { 0 };
            match self.pairs[self.turn].receive(burst) {
                Ok(malformed) => self.counters.malformed += malformed,
                Err(broken) => self.broken = Some(broken),
            }
            if burst.len() > before {
                break;
            }
        }
        let received = burst.len() - before;
        self.counters.received += received as u64;
        received
    }

    /// A new packet of `len` bytes with whatever was in its buffer; `None` if it does not fit into one, or if all
    /// buffers are in use.
    pub fn alloc(&self, len: usize) -> Option<Packet> {
        let mut packet = Packet::new(self.pool.take()?, 0);
        packet.strip(NET_HEADER as usize)?;
        packet.set_len(len)?;
        Some(packet)
    }

    /// Buffers that no queue and no packet has, of those that all ports share.
    pub fn free_buffers(&self) -> usize {
        self.pool.free()
    }

    /// Sends a packet: the buffers themselves, which are freed when the device is done with them. A packet of other
    /// memory, received before a reconnect, is copied. Gives it back if there is no room in the queue. The device
    /// sees it after [`Port::flush`].
    #[inline]
    pub fn transmit(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.broken.is_some() {
            return Err(packet);
        }
        let packet = if packet.segments().all(|s| s.is_from(&self.pool)) { packet } else { self.copy(packet)? };
        let pair = usize::from(packet.queue()) % self.pairs.len();
        match self.pairs[pair].transmit(packet) {
            Ok(Ok(())) => {
                self.counters.transmitted += 1;
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
        let mut at = 0;
        for chunk in packet.chunks() {
            copy[at..at + chunk.len()].copy_from_slice(chunk);
            at += chunk.len();
        }
        copy.set_queue(packet.queue());
        Ok(copy)
    }

    /// Sends all of `burst`, drops what there is no room for, and flushes.
    #[inline]
    pub fn transmit_all(&mut self, burst: &mut Vec<Packet>) {
        for packet in burst.drain(..) {
            if self.transmit(packet).is_err() {
                self.counters.full += 1;
            }
        }
        self.flush();
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
