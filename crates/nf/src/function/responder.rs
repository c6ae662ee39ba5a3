//! A host that answers: ARP requests and ICMP echo requests for its addresses.

use crate::wire::{MacAddr, arp, ethernet, icmp, ipv4};
use etherparse::{ArpEthIpv4Packet, ArpOperation};
use std::net::Ipv4Addr;

/// A host with one Ethernet address and some IPv4 addresses.
#[derive(Clone, Debug)]
pub struct Responder {
    mac: MacAddr,
    addresses: Vec<Ipv4Addr>,
}

impl Responder {
    /// Creates a host with `mac` and `addresses`.
    pub fn new(mac: MacAddr, addresses: Vec<Ipv4Addr>) -> Responder {
        Responder { mac, addresses }
    }

    /// Turns a frame into its answer; returns false if there is none. `frame` is the frame's first buffer, `len` its total
    /// length.
    pub fn answer(&self, frame: &mut [u8], len: usize) -> bool {
        match ethernet::ethertype(frame) {
            Some(ethernet::ARP) => self.answer_arp(frame),
            Some(ethernet::IPV4) if ethernet::destination(frame) == self.mac => match ipv4::Header::read(frame, len) {
                Some(header) if self.addresses.contains(&header.destination) => icmp::echo_in_place(frame, &header),
                _ => false,
            },
            _ => false,
        }
    }

    fn answer_arp(&self, frame: &mut [u8]) -> bool {
        let is_ours = |request: &ArpEthIpv4Packet| self.addresses.contains(&request.target_ipv4_addr());
        match arp::read(frame).filter(is_ours) {
            Some(request) if request.operation == ArpOperation::REQUEST => {
                arp::reply_in_place(&request, frame, self.mac);
                true
            }
            _ => false,
        }
    }
}
