//! An IPv4 router with static routes.

use super::routes::Route;
use super::routing::{AGAIN, ASKED, Dropped, FRESH, Interface, NEIGHBOURS, Routing, Step, Unreachable};
use crate::wire::{MacAddr, ethernet, icmp, ipv4};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::ops::DerefMut;
use std::time::Duration;

/// Maximum number of packets held for one neighbour while a request is pending.
const HELD: usize = 4;

/// The state of a neighbour.
enum Neighbour<P> {
    Known { mac: MacAddr, since: Duration },
    Asked { since: Duration, held: Vec<P> },
}

/// A router. `P` is the type of frames: [`crate::Packet`], or a vector in tests.
pub struct Router<P> {
    routing: Routing,
    neighbours: HashMap<(usize, Ipv4Addr), Neighbour<P>>,
}

/// The environment of a router: time, memory and output.
pub trait Surroundings<P> {
    /// Returns the time since a fixed point in the past.
    fn now(&self) -> Duration;
    /// Allocates a frame of `len` bytes to be sent from `port`, if there is memory.
    fn alloc(&mut self, port: usize, len: usize) -> Option<P>;
    /// Sends a frame from `port`.
    fn send(&mut self, port: usize, frame: P);
}

impl<P: DerefMut<Target = [u8]>> Router<P> {
    /// Creates a router with `interfaces`, in the order of its ports, and `routes` beyond their networks.
    pub fn new(interfaces: Vec<Interface>, routes: &[Route]) -> Result<Router<P>, Unreachable> {
        Ok(Router { routing: Routing::new(interfaces, routes)?, neighbours: HashMap::new() })
    }

    /// Handles a frame of `len` bytes that `port` received. An error is the reason why it was dropped.
    pub fn handle(
        &mut self,
        port: usize,
        mut frame: P,
        len: usize,
        around: &mut impl Surroundings<P>,
    ) -> Result<(), Dropped> {
        match self.routing.step(port, &mut frame, len)? {
            Step::Answer => around.send(port, frame),
            Step::Arp { mac, ip, is_reply } => {
                self.learn(port, mac, ip, around);
                if is_reply {
                    around.send(port, frame);
                }
            }
            Step::Forward { port, hop } => self.send_to(port, hop, frame, around)?,
            Step::Expired(header) => {
                self.tell_time_exceeded(port, &frame, &header, around);
                return Err(Dropped::TimeExceeded);
            }
        }
        Ok(())
    }

    /// Stores a neighbour's MAC address, and sends the packets held for it. Updates existing entries only, so that neither
    /// requests nor unsolicited replies can fill the table.
    fn learn(&mut self, port: usize, mac: MacAddr, ip: Ipv4Addr, around: &mut impl Surroundings<P>) {
        if !self.routing.interface(port).network.contains(ip) {
            return;
        }
        let Some(neighbour) = self.neighbours.get_mut(&(port, ip)) else { return };
        let before = std::mem::replace(neighbour, Neighbour::Known { mac, since: around.now() });
        if let Neighbour::Asked { held, .. } = before {
            for mut frame in held {
                ethernet::set_addresses(&mut frame, mac, self.routing.interface(port).mac);
                around.send(port, frame);
            }
        }
    }

    fn tell_time_exceeded(&self, port: usize, frame: &[u8], header: &ipv4::Header, around: &mut impl Surroundings<P>) {
        if !icmp::may_be_answered(frame, header) {
            return;
        }
        let interface = self.routing.interface(port);
        if let Some(mut error) = around.alloc(port, icmp::time_exceeded_len(frame, header)) {
            icmp::write_time_exceeded(&mut error, frame, header, interface.mac, interface.network.address);
            around.send(port, error);
        }
    }

    /// Sends a frame to a neighbour, or holds it while the request for the neighbour's MAC address is pending.
    fn send_to(
        &mut self,
        port: usize,
        hop: Ipv4Addr,
        mut frame: P,
        around: &mut impl Surroundings<P>,
    ) -> Result<(), Dropped> {
        let now = around.now();
        let interface = self.routing.interface(port);
        match self.neighbours.get_mut(&(port, hop)) {
            Some(Neighbour::Known { mac, since }) if now.saturating_sub(*since) < FRESH => {
                ethernet::set_addresses(&mut frame, *mac, interface.mac);
                around.send(port, frame);
                return Ok(());
            }
            Some(Neighbour::Asked { since, held }) => {
                if now.saturating_sub(*since) < AGAIN {
                    if held.len() == HELD {
                        return Err(Dropped::NoNeighbour);
                    }
                    held.push(frame);
                    return Ok(());
                }
                // Drop the packets that waited for the last request.
                *since = now;
                *held = vec![frame];
            }
            _ => {
                if !self.has_room() {
                    self.forget(now);
                    if !self.has_room() {
                        return Err(Dropped::NoNeighbour);
                    }
                }
                self.neighbours.insert((port, hop), Neighbour::Asked { since: now, held: vec![frame] });
            }
        }
        if let Some(mut request) = around.alloc(port, ethernet::MIN_FRAME) {
            self.routing.write_request(port, hop, &mut request);
            around.send(port, request);
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        let asked = self.neighbours.values().filter(|n| matches!(n, Neighbour::Asked { .. })).count();
        asked < ASKED && self.neighbours.len() < NEIGHBOURS
    }

    /// Removes expired neighbours.
    fn forget(&mut self, now: Duration) {
        self.neighbours.retain(|_, neighbour| match neighbour {
            Neighbour::Known { since, .. } => now.saturating_sub(*since) < FRESH,
            Neighbour::Asked { since, .. } => now.saturating_sub(*since) < AGAIN,
        });
    }
}
