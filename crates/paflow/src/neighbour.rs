//! Who has this address? What a station answers to ARP (RFC 826) and neighbour solicitations (RFC 4861) that ask for one of
//! its own. It asks for nobody itself.

use crate::checksum::Sum;
use crate::octets::Octets;
use crate::outer::Mac;
use crate::table::key::{C_TAG, IPV6, network, vid};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// EtherType of ARP.
const ARP: u16 = 0x0806;
const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Options that name the sender's link-layer address, and the target's.
const SOURCE_ADDRESS: u8 = 1;
const TARGET_ADDRESS: u8 = 2;

/// Bytes of ICMPv6 before options: of a solicitation as of an advertisement.
const MESSAGE: usize = 24;
/// Options are counted in units of so many bytes.
const UNIT: usize = 8;
/// The shortest payload of an Ethernet frame (IEEE 802.3).
const MIN_PAYLOAD: usize = 46;
/// Ethernet with a tag, IPv6, and an advertisement with one option.
const LONGEST: usize = 18 + 40 + MESSAGE + UNIT;

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: Mac = [0x33, 0x33, 0, 0, 0, 1];

/// Whom a link knows by a MAC address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Station {
    /// The MAC address.
    pub mac: Mac,
    /// The IP addresses that it has.
    pub addresses: Vec<IpAddr>,
    /// In which VLANs it has them; `None` stands for no tag.
    pub vlans: Vec<Option<u16>>,
}

/// A frame that answers.
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
    /// An Ethernet header.
    fn new(destination: Mac, source: Mac, vlan: Option<u16>, ethertype: u16) -> Answer {
        let mut answer = Answer { bytes: [0; LONGEST], len: 0 };
        answer.put(&destination);
        answer.put(&source);
        if let Some(vid) = vlan {
            answer.put(&C_TAG.to_be_bytes());
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
    /// Whether a frame is to a group or to this station, as those are that ask for somebody: all others need no closer
    /// look.
    #[inline(always)]
    pub fn may_be_asked<S: Octets + ?Sized>(&self, frame: &S) -> bool {
        frame.read::<6>(0).is_some_and(|to| is_group(to) || to == self.mac)
    }

    /// The answer to `frame`, if that asks for one of the addresses, and does so as the standards say. What is answered to was
    /// read once, should the bytes change meanwhile.
    #[cold]
    pub fn answer<S: Octets + ?Sized>(&self, frame: &S) -> Option<Answer> {
        let vlan = vid(frame);
        if !self.vlans.contains(&vlan) {
            return None;
        }
        match network(frame)? {
            (ARP, at) => self.request(frame, at, vlan),
            (IPV6, at) => self.solicitation(frame, at, vlan),
            _ => None,
        }
    }

    /// An ARP request at `at`.
    fn request<S: Octets + ?Sized>(&self, frame: &S, at: usize, vlan: Option<u16>) -> Option<Answer> {
        // Ethernet, IPv4, the lengths of their addresses, and the operation.
        const REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
        let message = frame.read::<28>(at)?;
        let [h0, h1, h2, h3, h4, h5, h6, h7, m0, m1, m2, m3, m4, m5, s0, s1, s2, s3, .., t0, t1, t2, t3] = message;
        let (mac, sender, target) = ([m0, m1, m2, m3, m4, m5], [s0, s1, s2, s3], [t0, t1, t2, t3]);
        // Whoever asks for the address that it has itself announces it.
        let asks = [h0, h1, h2, h3, h4, h5, h6, h7] == REQUEST && sender != target;
        if !asks || is_group(mac) || !self.addresses.contains(&Ipv4Addr::from(target).into()) {
            return None;
        }
        let mut answer = Answer::new(mac, self.mac, vlan, ARP);
        let payload = answer.len;
        answer.put(&[0, 1, 8, 0, 6, 4, 0, 2]);
        answer.put(&self.mac);
        answer.put(&target);
        answer.put(&mac);
        answer.put(&sender);
        answer.len = payload + MIN_PAYLOAD;
        Some(answer)
    }

    /// A neighbour solicitation behind the IPv6 header at `at`; checked as RFC 4861, Section 7.1.1 asks.
    fn solicitation<S: Octets + ?Sized>(&self, frame: &S, at: usize, vlan: Option<u16>) -> Option<Answer> {
        let header = frame.read::<40>(at)?;
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let (protocol, hop_limit) = (header[6], header[7]);
        if header[0] >> 4 != 6 || protocol != ICMPV6 || hop_limit != 255 || len < MESSAGE || len % UNIT != 0 {
            return None;
        }
        let message = frame.read::<MESSAGE>(at + 40)?;
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
        // Options: how many units are left of the one that was begun, and the address of whoever asks.
        let (mut left, mut mac) = (0, None);
        for unit in (MESSAGE..len).step_by(UNIT) {
            let bytes = frame.read::<UNIT>(at + 40 + unit)?;
            sum.add(&bytes);
            if left == 0 {
                let [kind, units, address @ ..] = bytes;
                left = units;
                if (kind, units) == (SOURCE_ADDRESS, 1) {
                    mac = Some(address);
                }
            }
            // None has no length.
            left = left.checked_sub(1)?;
        }
        if left != 0 || sum.finish() != 0 {
            return None;
        }
        // Who has no address yet wants to know whether this one is free (RFC 4862, Section 5.4): all have to hear that not.
        let (to, to_mac, flags) = match (source.is_unspecified(), mac) {
            (true, Some(_)) => return None,
            (true, None) if destination == target => return None,
            (true, None) => (ALL_NODES, ALL_NODES_MAC, 0x20),
            (false, Some(mac)) => (source, mac, 0x60),
            (false, None) => (source, sender(frame)?, 0x60),
        };
        if is_group(to_mac) && !to.is_multicast() {
            return None;
        }
        let mut answer = Answer::new(to_mac, self.mac, vlan, IPV6);
        let len = (MESSAGE + UNIT) as u8;
        answer.put(&[0x60, 0, 0, 0, 0, len, ICMPV6, 255]);
        answer.put(&target.octets());
        answer.put(&to.octets());
        let message = answer.len;
        answer.put(&[ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0]);
        answer.put(&target.octets());
        answer.put(&[TARGET_ADDRESS, 1]);
        answer.put(&self.mac);
        let mut sum = pseudo(&target, &to, len.into());
        sum.add(&answer[message..]);
        answer.bytes[message + 2..message + 4].copy_from_slice(&sum.finish().to_be_bytes());
        Some(answer)
    }
}

fn is_group(mac: Mac) -> bool {
    mac[0] & 1 != 0
}

/// The source of the Ethernet header.
fn sender<S: Octets + ?Sized>(frame: &S) -> Option<Mac> {
    frame.read(6)
}

fn address(bytes: &[u8], from: usize) -> Ipv6Addr {
    let octets: [u8; 16] = std::array::from_fn(|index| bytes[from + index]);
    octets.into()
}

/// The group of those whose address ends like this one (RFC 4291, Section 2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | high & 0xff, low)
}

/// The sum of the pseudo header of ICMPv6 (RFC 8200, Section 8.1).
fn pseudo(source: &Ipv6Addr, destination: &Ipv6Addr, len: u16) -> Sum {
    let mut sum = Sum::new();
    sum.add(&source.octets());
    sum.add(&destination.octets());
    sum.add_word(len);
    sum.add_word(ICMPV6.into());
    sum
}
