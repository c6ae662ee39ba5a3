//! The router of a crew: workers route at the same time, and know neighbours together.
//!
//! A worker of a crew can neither keep a frame nor make one. So a frame is turned into the frame that it causes:
//!
//! - A frame to a neighbour whose MAC address is not known becomes the request for it, and is lost itself. Further frames to this
//!   neighbour are dropped until it answers. [`super::Router`] holds some of them instead.
//! - A frame whose TTL has expired becomes the error to its sender.
//!
//! A frame in several buffers becomes neither, as its length can't change: it is dropped.

use super::neighbours::{Acquaintances, Answer, Neighbours};
use super::routes::Route;
use super::routing::{Dropped, Interface, Routing, Step, Unreachable};
use crate::crew::View;
use crate::wire::{ethernet, icmp, ipv4};
use std::ops::DerefMut;
use std::time::Duration;

/// Bytes of a frame that an error about it needs: Ethernet header, the longest IPv4 header, and the quoted bytes after it.
const QUOTED: usize = ethernet::HEADER + 60 + 8;

/// A frame whose length may change. It dereferences to the bytes of its first buffer.
pub trait Frame: DerefMut<Target = [u8]> {
    /// Returns the length of the whole frame.
    fn total_len(&self) -> usize;
    /// Sets the length; added bytes have arbitrary contents. Returns `None` if they don't fit, or if it has several buffers.
    fn set_len(&mut self, len: usize) -> Option<()>;
}

impl Frame for View<'_> {
    fn total_len(&self) -> usize {
        self.total_len()
    }

    fn set_len(&mut self, len: usize) -> Option<()> {
        self.set_len(len)
    }
}

/// A router for several workers.
pub struct SharedRouter {
    routing: Routing,
    neighbours: Neighbours,
}

impl SharedRouter {
    /// Creates a router with `interfaces`, in the order of its ports, and `routes` beyond their networks.
    pub fn new(interfaces: Vec<Interface>, routes: &[Route]) -> Result<SharedRouter, Unreachable> {
        Ok(SharedRouter { routing: Routing::new(interfaces, routes)?, neighbours: Neighbours::default() })
    }

    /// Returns the router as one worker uses it.
    pub fn worker(&self) -> RouterWorker<'_> {
        RouterWorker { router: self, neighbours: Acquaintances::new(&self.neighbours) }
    }
}

/// A router as one of its workers uses it.
pub struct RouterWorker<'r> {
    router: &'r SharedRouter,
    neighbours: Acquaintances<'r>,
}

impl RouterWorker<'_> {
    /// Handles a frame that `port` received; `now` is the time since a fixed point in the past. Returns the port to send it to,
    /// `None` if it was for the router alone. An error is the reason why it was dropped.
    #[inline]
    pub fn handle(&mut self, port: usize, frame: &mut impl Frame, now: Duration) -> Result<Option<usize>, Dropped> {
        let len = frame.total_len();
        let routing = &self.router.routing;
        match routing.step(port, frame, len)? {
            Step::Answer => Ok(Some(port)),
            Step::Arp { mac, ip, is_reply } => {
                if routing.interface(port).network.contains(ip) {
                    self.router.neighbours.learn((port, ip), mac, now);
                }
                Ok(is_reply.then_some(port))
            }
            Step::Forward { port, hop } => {
                let may_ask = frame.len() == len;
                match self.neighbours.find((port, hop), may_ask, now) {
                    Answer::Known(mac) => ethernet::set_addresses(frame, mac, routing.interface(port).mac),
                    Answer::Unknown => return Err(Dropped::NoNeighbour),
                    Answer::Ask => {
                        frame.set_len(ethernet::MIN_FRAME).ok_or(Dropped::NoNeighbour)?;
                        routing.write_request(port, hop, frame);
                    }
                }
                Ok(Some(port))
            }
            Step::Expired(header) => {
                tell_time_exceeded(frame, &header, routing.interface(port)).ok_or(Dropped::TimeExceeded)?;
                Ok(Some(port))
            }
        }
    }
}

/// Turns a frame into the error about it, if it may be answered and has room.
#[cold]
fn tell_time_exceeded(frame: &mut impl Frame, header: &ipv4::Header, interface: Interface) -> Option<()> {
    if !icmp::may_be_answered(frame, header) {
        return None;
    }
    let mut original = [0; QUOTED];
    let original = &mut original[..frame.len().min(QUOTED)];
    original.copy_from_slice(&frame[..original.len()]);
    frame.set_len(icmp::time_exceeded_len(original, header))?;
    icmp::write_time_exceeded(frame, original, header, interface.mac, interface.network.address);
    Some(())
}
