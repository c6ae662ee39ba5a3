//! Decides about a frame by a router's tables, which never change. Other modules look up neighbours.

use super::routes::{Network, Route, Table};
use crate::wire::{MacAddr, arp, ethernet, icmp, ipv4};
use etherparse::{ArpEthIpv4Packet, ArpOperation};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Lifetime of a neighbour's MAC address.
pub(super) const FRESH: Duration = Duration::from_secs(300);
/// Minimum time between two requests for the same neighbour.
pub(super) const AGAIN: Duration = Duration::from_secs(1);
/// Maximum number of pending requests: all packets held for them must fit into a few spare buffers.
pub(super) const ASKED: usize = 32;
/// Maximum number of neighbours, known or requested.
pub(super) const NEIGHBOURS: usize = 1024;

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

/// Error: a route's next router is in none of the interfaces' networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the route to {} leads to {}, which is in no port's network", .0.network, .0.via)]
pub struct Unreachable(pub Route);

/// Decision about a frame.
pub(super) enum Step {
    /// It has become an answer: send it back by its port.
    Answer,
    /// It is an ARP message of this neighbour. If it was a request, it has become the reply.
    Arp { mac: MacAddr, ip: Ipv4Addr, is_reply: bool },
    /// Its TTL is lowered: send it by this port to this neighbour.
    Forward { port: usize, hop: Ipv4Addr },
    /// Its TTL has expired.
    Expired(ipv4::Header),
}

/// Interfaces and routes.
pub(super) struct Routing {
    interfaces: Vec<Interface>,
    table: Table,
}

impl Routing {
    /// Creates the tables of a router with `interfaces`, in the order of its ports, and `routes` beyond their networks.
    pub(super) fn new(interfaces: Vec<Interface>, routes: &[Route]) -> Result<Routing, Unreachable> {
        let mut table = Table::default();
        for (port, interface) in interfaces.iter().enumerate() {
            table.add(interface.network, (port, None));
        }
        for &route in routes {
            let port = interfaces.iter().position(|i| i.network.contains(route.via)).ok_or(Unreachable(route))?;
            table.add(route.network, (port, Some(route.via)));
        }
        Ok(Routing { interfaces, table })
    }

    #[inline]
    pub(super) fn interface(&self, port: usize) -> Interface {
        self.interfaces[port]
    }

    /// Decides about a frame of `len` bytes that `port` received.
    #[inline]
    pub(super) fn step(&self, port: usize, frame: &mut [u8], len: usize) -> Result<Step, Dropped> {
        let Some(ethertype) = ethernet::ethertype(frame) else { return Err(Dropped::Malformed) };
        let to = ethernet::destination(frame);
        if to != self.interfaces[port].mac && !to.is_group() {
            return Err(Dropped::NotForUs);
        }
        match ethertype {
            ethernet::ARP => self.arp(port, frame),
            ethernet::IPV4 if to.is_group() => Err(Dropped::NotRouted),
            ethernet::IPV4 => self.ipv4(frame, len),
            _ => Err(Dropped::Malformed),
        }
    }

    fn arp(&self, port: usize, frame: &mut [u8]) -> Result<Step, Dropped> {
        let message = arp::read(frame).ok_or(Dropped::Malformed)?;
        let interface = self.interfaces[port];
        if message.target_ipv4_addr() != interface.network.address {
            return Err(Dropped::NotForUs);
        }
        let is_reply = message.operation == ArpOperation::REQUEST;
        if is_reply {
            arp::reply_in_place(&message, frame, interface.mac);
        }
        Ok(Step::Arp { mac: MacAddr(message.sender_mac), ip: message.sender_ipv4_addr(), is_reply })
    }

    #[inline]
    fn ipv4(&self, frame: &mut [u8], len: usize) -> Result<Step, Dropped> {
        let header = ipv4::Header::read(frame, len).ok_or(Dropped::Malformed)?;
        let to = header.destination;
        if self.interfaces.iter().any(|i| i.network.address == to) {
            return if icmp::echo_in_place(frame, &header) { Ok(Step::Answer) } else { Err(Dropped::Unanswered) };
        }
        let is_invalid =
            |ip: Ipv4Addr| ip.is_multicast() || ip.is_loopback() || ip.octets()[0] == 0 || ip.is_broadcast();
        if is_invalid(to) || is_invalid(header.source) || self.interfaces.iter().any(|i| i.network.is_broadcast(to)) {
            return Err(Dropped::NotRouted);
        }
        let (port, hop) = self.table.find(to).ok_or(Dropped::NoRoute)?;
        if header.ttl <= 1 {
            return Ok(Step::Expired(header));
        }
        ipv4::set_ttl(frame, header.ttl - 1);
        Ok(Step::Forward { port, hop })
    }

    /// Writes a request for the MAC address of a neighbour into a frame of [`ethernet::MIN_FRAME`] bytes.
    pub(super) fn write_request(&self, port: usize, hop: Ipv4Addr, frame: &mut [u8]) {
        let interface = self.interfaces[port];
        let message = ArpEthIpv4Packet {
            operation: ArpOperation::REQUEST,
            sender_mac: interface.mac.0,
            sender_ipv4: interface.network.address.octets(),
            target_mac: [0; 6],
            target_ipv4: hop.octets(),
        };
        arp::write(&message, frame, MacAddr::BROADCAST);
    }
}
