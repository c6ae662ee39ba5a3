//! A TCP proxy in user space: services get a network path over a port of a switch, past the kernel's network stack.
//!
//! TCP ends here, in `smoltcp`. The bytes of each connection pass to a local socket, and back:
//! - [`Serve`]: connections from the network go to a local service;
//! - [`Reach`]: connections to a local socket go to a service in the network.
//!
//! The stack writes each frame into the buffer of the port that the switch gets. Local sockets are watched with epoll, edge-triggered: the proxy reads and writes one only while that may succeed.
//! Everything is bounded by [`Limits`].

mod connection;
mod counters;
mod device;
mod door;
mod ephemeral;
mod error;
mod local;
mod options;
mod relay;
mod sequence;
mod sockets;
mod stack;
#[cfg(test)]
mod tests;
mod watch;

pub use counters::{Counters, Refusal};
pub use error::ProxyError;
pub use options::{Endpoint, Limits, Options, ParseError, Prefix, Reach, Serve};

use crate::memory::Packet;
use crate::port::Ports;
use crate::run::Work;
use device::PortLink;
use relay::Relay;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// A proxy at the first port of a network function.
pub struct Proxy {
    relay: Relay,
    /// Received frames that still have to be processed.
    received: VecDeque<Packet>,
    /// Frames that the port's queue had no room for.
    waiting: VecDeque<Packet>,
    burst: Vec<Packet>,
    mtu: usize,
    began: Instant,
}

impl Proxy {
    /// Listens on the local sockets of [`Options::reach`].
    pub fn new(options: &Options) -> Result<Proxy, ProxyError> {
        Ok(Proxy {
            relay: Relay::new(options)?,
            received: VecDeque::new(),
            waiting: VecDeque::new(),
            burst: Vec::new(),
            mtu: options.mtu.into(),
            began: Instant::now(),
        })
    }

    /// Returns its counters.
    pub fn counters(&self) -> Counters {
        self.relay.counters()
    }

    fn now(&self) -> smoltcp::time::Instant {
        smoltcp::time::Instant::from_micros(self.began.elapsed().as_micros() as i64)
    }
}

impl Work for Proxy {
    fn round(&mut self, ports: &mut Ports) -> usize {
        let now = self.now();
        let port = &mut ports[0];
        if self.received.is_empty() {
            port.receive(&mut self.burst);
            self.received.extend(self.burst.drain(..));
        }
        let mut link = PortLink::new(port, &mut self.received, &mut self.waiting, self.mtu);
        link.send_waiting();
        let moved = self.relay.round(&mut link, now);
        port.flush();
        moved
    }

    fn watched(&self) -> BorrowedFd<'_> {
        self.relay.watched()
    }

    fn patience(&mut self) -> Duration {
        // No notification comes when the port's queue has room again.
        const ROOM: Duration = Duration::from_micros(500);
        let now = self.now();
        if self.waiting.is_empty() { self.relay.patience(now) } else { ROOM }
    }
}

/// Returns the length of the longest frame of a network with this MTU.
pub const fn frame_len(mtu: u16) -> usize {
    mtu as usize + smoltcp::wire::ETHERNET_HEADER_LEN
}
