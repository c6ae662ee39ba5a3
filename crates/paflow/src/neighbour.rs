//! Answers to ARP requests (RFC 826) and neighbour solicitations (RFC 4861) for a station's addresses. The station never
//! sends requests itself.

use crate::octets::Octets;
use crate::table::key::{network, vid};
use packet::checksum::Sum;
use packet::ip_protocol::ICMPV6;
use packet::{MacAddr, ethertype, header_len};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Options with the link-layer address of the sender, and of the target.
const SOURCE_ADDRESS: u8 = 1;
const TARGET_ADDRESS: u8 = 2;

/// Bytes of ICMPv6 before the options, in solicitations and advertisements alike.
const MESSAGE: usize = 24;
/// Unit of an option's length, in bytes.
const UNIT: usize = 8;
/// The longest answer: Ethernet with a tag, IPv6, and an advertisement with one option.
const LONGEST: usize = header_len::ETHERNET + header_len::VLAN_TAG + header_len::IPV6 + MESSAGE + UNIT;

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: MacAddr = MacAddr([0x33, 0x33, 0, 0, 0, 1]);

/// The addresses of one end of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Station {
    /// The MAC address.
    pub mac: MacAddr,
    /// Its IP addresses.
    pub addresses: Vec<IpAddr>,
    /// The VLANs in which it answers; `None` stands for no tag.
    pub vlans: Vec<Option<u16>>,
}

/// A frame with an answer.
#[derive(Clone, Debug)]
pub struct Answer {
    bytes: [u8; LONGEST],
    len: usize,
}

impl std::ops::Deref for Answer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Answer {
    /// Starts a frame with an Ethernet header.
    fn new(destination: MacAddr, source: MacAddr, vlan: Option<u16>, ethertype: u16) -> Answer {
        let mut answer = Answer { bytes: [0; LONGEST], len: 0 };
        answer.put(&destination.0);
        answer.put(&source.0);
        if let Some(vid) = vlan {
            answer.put(&ethertype::VLAN.to_be_bytes());
            answer.put(&vid.to_be_bytes());
        }
        answer.put(&ethertype.to_be_bytes());
        answer
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

impl Station {
    /// Reports whether a frame is sent to a group or to this station, as all requests are: no other frame needs a closer
    /// look.
    #[inline(always)]
    pub fn may_be_asked<S: Octets + ?Sized>(&self, frame: &S) -> bool {
        frame.read(0).map(MacAddr).is_some_and(|to| to.is_group() || to == self.mac)
    }

    /// Returns the answer to `frame`, if it is a valid request for one of the addresses. Reads each byte of the request once,
    /// in case the bytes change meanwhile.
    #[cold]
    pub fn answer<S: Octets + ?Sized>(&self, frame: &S) -> Option<Answer> {
        let vlan = vid(frame);
        if !self.vlans.contains(&vlan) {
            return None;
        }
        match network(frame)? {
            (ethertype::ARP, at) => self.request(frame, at, vlan),
            (ethertype::IPV6, at) => self.solicitation(frame, at, vlan),
            _ => None,
        }
    }

    /// Answers an ARP request at `at`.
    fn request<S: Octets + ?Sized>(&self, frame: &S, at: usize, vlan: Option<u16>) -> Option<Answer> {
        // Ethernet, IPv4, the lengths of their addresses, and the operation.
        const REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
        let message = frame.read::<28>(at)?;
        let [h0, h1, h2, h3, h4, h5, h6, h7, m0, m1, m2, m3, m4, m5, s0, s1, s2, s3, .., t0, t1, t2, t3] = message;
        let (mac, sender, target) = (MacAddr([m0, m1, m2, m3, m4, m5]), [s0, s1, s2, s3], [t0, t1, t2, t3]);
        // A request for the sender's own address is an announcement.
        let asks = [h0, h1, h2, h3, h4, h5, h6, h7] == REQUEST && sender != target;
        if !asks || mac.is_group() || !self.addresses.contains(&Ipv4Addr::from(target).into()) {
            return None;
        }
        let mut answer = Answer::new(mac, self.mac, vlan, ethertype::ARP);
        let payload = answer.len;
        answer.put(&[0, 1, 8, 0, 6, 4, 0, 2]);
        answer.put(&self.mac.0);
        answer.put(&target);
        answer.put(&mac.0);
        answer.put(&sender);
        answer.len = payload + header_len::MIN_ETHERNET_PAYLOAD;
        Some(answer)
    }

    /// Answers a neighbour solicitation that follows the IPv6 header at `at`, after the checks of RFC 4861, Section 7.1.1.
    fn solicitation<S: Octets + ?Sized>(&self, frame: &S, at: usize, vlan: Option<u16>) -> Option<Answer> {
        let header = frame.read::<{ header_len::IPV6 }>(at)?;
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let (protocol, hop_limit) = (header[6], header[7]);
        if header[0] >> 4 != 6 || protocol != ICMPV6 || hop_limit != 255 || len < MESSAGE || len % UNIT != 0 {
            return None;
        }
        let message = frame.read::<MESSAGE>(at + header_len::IPV6)?;
        if message[..2] != [SOLICITATION, 0] {
            return None;
        }
        let [source, destination] = [8, 24].map(|from| address(&header, from));
        let target = address(&message, 8);
        let asks = destination == target || destination == solicited_node(target);
        if !asks || source.is_multicast() || source == target || !self.addresses.contains(&target.into()) {
            return None;
        }
        let mut sum = pseudo(&source, &destination, len as u16);
        sum.add(&message);
        // Options: units left of the current one, and the requester's link-layer address.
        let (mut left, mut mac) = (0, None);
        for unit in (MESSAGE..len).step_by(UNIT) {
            let bytes = frame.read::<UNIT>(at + header_len::IPV6 + unit)?;
            sum.add(&bytes);
            if left == 0 {
                let [kind, units, address @ ..] = bytes;
                left = units;
                if (kind, units) == (SOURCE_ADDRESS, 1) {
                    mac = Some(MacAddr(address));
                }
            }
            // No option has length zero.
            left = left.checked_sub(1)?;
        }
        if left != 0 || sum.finish() != 0 {
            return None;
        }
        // An unspecified source is checking whether the address is free (RFC 4862, Section 5.4): tell all nodes that it is not.
        let (to, to_mac, flags) = match (source.is_unspecified(), mac) {
            (true, Some(_)) => return None,
            (true, None) if destination == target => return None,
            (true, None) => (ALL_NODES, ALL_NODES_MAC, 0x20),
            (false, Some(mac)) => (source, mac, 0x60),
            (false, None) => (source, sender(frame)?, 0x60),
        };
        if to_mac.is_group() && !to.is_multicast() {
            return None;
        }
        let mut answer = Answer::new(to_mac, self.mac, vlan, ethertype::IPV6);
        let len = (MESSAGE + UNIT) as u8;
        answer.put(&[0x60, 0, 0, 0, 0, len, ICMPV6, 255]);
        answer.put(&target.octets());
        answer.put(&to.octets());
        let message = answer.len;
        answer.put(&[ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0]);
        answer.put(&target.octets());
        answer.put(&[TARGET_ADDRESS, 1]);
        answer.put(&self.mac.0);
        let mut sum = pseudo(&target, &to, len.into());
        sum.add(&answer[message..]);
        answer.bytes[message + 2..message + 4].copy_from_slice(&sum.finish().to_be_bytes());
        Some(answer)
    }
}

/// Returns the source of the Ethernet header.
fn sender<S: Octets + ?Sized>(frame: &S) -> Option<MacAddr> {
    frame.read(6).map(MacAddr)
}

fn address(bytes: &[u8], from: usize) -> Ipv6Addr {
    let octets: [u8; 16] = std::array::from_fn(|index| bytes[from + index]);
    octets.into()
}

/// Returns the solicited-node multicast address of `address` (RFC 4291, Section 2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | high & 0xff, low)
}

/// Returns the sum of the ICMPv6 pseudo header (RFC 8200, Section 8.1).
fn pseudo(source: &Ipv6Addr, destination: &Ipv6Addr, len: u16) -> Sum {
    let mut sum = Sum::new();
    sum.add(&source.octets());
    sum.add(&destination.octets());
    sum.add_word(len);
    sum.add_word(ICMPV6.into());
    sum
}
