//! An IPv4 router with static routes.

use super::routes::{Network, Route, Table};
use crate::wire::{MacAddr, arp, ethernet, icmp, ipv4};
use etherparse::{ArpEthIpv4Packet, ArpOperation};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::ops::DerefMut;
use std::time::Duration;

/// Lifetime of a neighbour's MAC address.
const FRESH: Duration = Duration::from_secs(300);
/// Minimum time between two requests for the same neighbour.
const AGAIN: Duration = Duration::from_secs(1);
/// Maximum number of packets held for one neighbour while a request is pending.
const HELD: usize = 4;
/// Maximum number of pending requests: all held packets must fit into a few spare buffers.
const ASKED: usize = 32;
/// Maximum number of neighbours, known or requested.
const NEIGHBOURS: usize = 1024;

/// One port of the router.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its address and directly connected network.
    pub network: Network,
}

/// The reason why a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// It is for another host on the link.
    NotForUs,
    /// It is not ARP or IPv4, or not valid.
    Malformed,
    /// It is for the router itself, which does not answer it.
    Unanswered,
    /// No route leads to its destination.
    NoRoute,
    /// Its destination is a multicast group, a broadcast or not valid.
    NotRouted,
    /// Its TTL expired; the sender gets an ICMP error if allowed.
    TimeExceeded,
    /// Its next hop does not answer, or there are too many neighbours.
    NoNeighbour,
}

/// The state of a neighbour.
enum Neighbour<P> {
    Known { mac: MacAddr, since: Duration },
    Asked { since: Duration, held: Vec<P> },
}

/// A router. `P` is the type of frames: [`crate::Packet`], or a vector in tests.
pub struct Router<P> {
    interfaces: Vec<Interface>,
    table: Table,
    neighbours: HashMap<(usize, Ipv4Addr), Neighbour<P>>,
}

/// Error: a route's next router is in none of the interfaces' networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the route to {} leads to {}, which is in no port's network", .0.network, .0.via)]
pub struct Unreachable(pub Route);

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
        let mut table = Table::default();
        for (port, interface) in interfaces.iter().enumerate() {
            table.add(interface.network, (port, None));
        }
        for &route in routes {
            let port = interfaces.iter().position(|i| i.network.contains(route.via)).ok_or(Unreachable(route))?;
            table.add(route.network, (port, Some(route.via)));
        }
        Ok(Router { interfaces, table, neighbours: HashMap::new() })
    }

    /// Handles a frame of `len` bytes that `port` received. An error is the reason why it was dropped.
    pub fn handle(
        &mut self,
        port: usize,
        frame: P,
        len: usize,
        around: &mut impl Surroundings<P>,
    ) -> Result<(), Dropped> {
        let Some(ethertype) = ethernet::ethertype(&frame) else { return Err(Dropped::Malformed) };
        let to = ethernet::destination(&frame);
        if to != self.interfaces[port].mac && !to.is_group() {
            return Err(Dropped::NotForUs);
        }
        match ethertype {
            ethernet::ARP => self.handle_arp(port, frame, around),
            ethernet::IPV4 if to.is_group() => Err(Dropped::NotRouted),
            ethernet::IPV4 => self.handle_ipv4(port, frame, len, around),
            _ => Err(Dropped::Malformed),
        }
    }

    fn handle_arp(&mut self, port: usize, mut frame: P, around: &mut impl Surroundings<P>) -> Result<(), Dropped> {
        let message = arp::read(&frame).ok_or(Dropped::Malformed)?;
        let interface = self.interfaces[port];
        if message.target_ipv4_addr() != interface.network.address {
            return Err(Dropped::NotForUs);
        }
        self.learn(port, MacAddr(message.sender_mac), message.sender_ipv4_addr(), around);
        if message.operation == ArpOperation::REQUEST {
            arp::reply_in_place(&message, &mut frame, interface.mac);
            around.send(port, frame);
        }
        Ok(())
    }

    /// Stores a neighbour's MAC address, and sends the packets held for it. Updates existing entries only, so that neither
    /// requests nor unsolicited replies can fill the table.
    fn learn(&mut self, port: usize, mac: MacAddr, ip: Ipv4Addr, around: &mut impl Surroundings<P>) {
        if !self.interfaces[port].network.contains(ip) {
            return;
        }
        let Some(neighbour) = self.neighbours.get_mut(&(port, ip)) else { return };
        let before = std::mem::replace(neighbour, Neighbour::Known { mac, since: around.now() });
        if let Neighbour::Asked { held, .. } = before {
            for mut frame in held {
                ethernet::set_addresses(&mut frame, mac, self.interfaces[port].mac);
                around.send(port, frame);
            }
        }
    }

    fn handle_ipv4(
        &mut self,
        port: usize,
        mut frame: P,
        len: usize,
        around: &mut impl Surroundings<P>,
    ) -> Result<(), Dropped> {
        let header = ipv4::Header::read(&frame, len).ok_or(Dropped::Malformed)?;
        let to = header.destination;
        if self.interfaces.iter().any(|i| i.network.address == to) {
            if !icmp::echo_in_place(&mut frame, &header) {
                return Err(Dropped::Unanswered);
            }
            around.send(port, frame);
            return Ok(());
        }
        let is_invalid =
            |ip: Ipv4Addr| ip.is_multicast() || ip.is_loopback() || ip.octets()[0] == 0 || ip.is_broadcast();
        if is_invalid(to) || is_invalid(header.source) || self.interfaces.iter().any(|i| i.network.is_broadcast(to)) {
            return Err(Dropped::NotRouted);
        }
        let (output, hop) = self.table.find(to).ok_or(Dropped::NoRoute)?;
        if header.ttl <= 1 {
            self.tell_time_exceeded(port, &frame, &header, around);
            return Err(Dropped::TimeExceeded);
        }
        ipv4::set_ttl(&mut frame, header.ttl - 1);
        self.send_to(output, hop, frame, around)
    }

    fn tell_time_exceeded(&self, port: usize, frame: &[u8], header: &ipv4::Header, around: &mut impl Surroundings<P>) {
        if !icmp::may_be_answered(frame, header) {
            return;
        }
        let interface = self.interfaces[port];
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
        let interface = self.interfaces[port];
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
            let message = ArpEthIpv4Packet {
                operation: ArpOperation::REQUEST,
                sender_mac: interface.mac.0,
                sender_ipv4: interface.network.address.octets(),
                target_mac: [0; 6],
                target_ipv4: hop.octets(),
            };
            arp::write(&message, &mut request, MacAddr::BROADCAST);
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
