//! Finds the aggregate in a received frame.

use crate::class;
use crate::datagram::Datagram;
use crate::decode::Tail;
use crate::header::{ETHERTYPE, UDP_PORT};
use crate::octets::{ByteRange, Octets};
use crate::reject::Reject;
use crate::table::key::{VXLAN_PORT, network};
use crate::vxlan;
use packet::{ethertype, header_len, ip_protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Offset of a packet after a VLAN tag.
const TAGGED: usize = header_len::ETHERNET + header_len::VLAN_TAG;

/// The EtherType of IPv4, its version, and the length of a header without options in words (RFC 791 §3.1).
const IPV4_WITHOUT_OPTIONS: u32 = (ethertype::IPV4 as u32) << 8 | 0x45;

/// The EtherType of IPv6, and its version (RFC 8200 §3).
const IPV6: u32 = (ethertype::IPV6 as u32) << 4 | 6;

/// Settings that decide which frames are aggregates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// The UDP port of aggregates; `None` accepts none over UDP.
    pub udp_port: Option<u16>,
    /// The UDP port of VXLAN; `None` accepts none inside VXLAN.
    pub vxlan_port: Option<u16>,
    /// Whether to accept aggregates in plain Ethernet frames.
    pub ethernet: bool,
    /// Whether to accept UDP over IPv6 without a checksum, which RFC 6935 allows only for a tunnel's port.
    pub zero_checksum_over_ipv6: bool,
    /// Whether to verify UDP checksums that are present. Unnecessary if the NIC or the sender's kernel vouches for them.
    pub verify: bool,
}

impl Default for Receiver {
    fn default() -> Self {
        Receiver {
            udp_port: Some(UDP_PORT),
            vxlan_port: Some(VXLAN_PORT),
            ethernet: true,
            zero_checksum_over_ipv6: true,
            verify: true,
        }
    }
}

/// An aggregate in a frame, not validated yet: pass `range` and `tail` to [`crate::decode::locate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its place in the frame, from its header's first byte on.
    pub range: ByteRange,
    /// Bytes allowed after the last embedded packet.
    pub tail: Tail,
    /// The outer source and destination; `None` in a plain Ethernet frame.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// The VNI, inside VXLAN.
    pub vni: Option<u32>,
    /// Whether the network marked it as having experienced congestion: its packets have to be marked
    /// ([`crate::class::mark`]).
    pub congested: bool,
}

impl Receiver {
    /// Finds an aggregate. `Ok(None)` means that the frame is not an aggregate and is treated like any other; an error, that
    /// it claims to be one and must be dropped. Skips one 802.1Q tag before the outer headers.
    #[inline(always)]
    pub fn find<S: Octets + ?Sized>(&self, frame: &S) -> Result<Option<Found>, Reject> {
        if self.passes_by(frame) { Ok(None) } else { self.find_at(frame, network(frame)) }
    }

    /// Finds an aggregate by the EtherType and the offset after it.
    #[inline]
    fn find_at<S: Octets + ?Sized>(&self, frame: &S, network: Option<(u16, usize)>) -> Result<Option<Found>, Reject> {
        match network {
            Some((ETHERTYPE, at)) if self.ethernet => {
                let range = ByteRange { start: at, end: frame.size() };
                Ok(Some(Found { range, tail: Tail::Padding, addresses: None, vni: None, congested: false }))
            }
            Some((ethertype, at)) => match Datagram::find(frame, ethertype, at) {
                Some(datagram) => self.datagram(frame, &datagram),
                None => Ok(None),
            },
            None => Ok(None),
        }
    }

    /// Reports whether a frame is surely no aggregate, as it is TCP or a datagram for another port, by a few bytes that are
    /// enough for most frames. If it is not certain, they are read again, and only the values checked then are used.
    #[inline(always)]
    pub fn passes_by<S: Octets + ?Sized>(self, frame: &S) -> bool {
        let Some(start) = frame.read(header_len::MAC_ADDRESSES).map(u64::from_be_bytes) else { return false };
        let tagged = ethertype::is_vlan((start >> 48) as u16);
        let (start, at) = if tagged { (start << 32, TAGGED) } else { (start, header_len::ETHERNET) };
        // The EtherType and the first byte after it.
        match (start >> 40) as u32 {
            IPV4_WITHOUT_OPTIONS => self.is_other(frame, at + 9, at + header_len::IPV4),
            other if other >> 4 == IPV6 => self.is_other(frame, at + 6, at + header_len::IPV6),
            _ => false,
        }
    }

    /// Reports whether an IP packet, by the number of its protocol and by the header at `at`, is TCP or a datagram for another port.
    #[inline(always)]
    fn is_other<S: Octets + ?Sized>(self, frame: &S, protocol: usize, at: usize) -> bool {
        // Where there is no such port, `find` looks at datagrams for port 0.
        let (aggregates, vxlan) = (self.udp_port.unwrap_or(0), self.vxlan_port.unwrap_or(0));
        // The port first: the protocol is before it.
        let Some(port) = frame.word(at + 2) else { return false };
        match frame.byte(protocol) {
            Some(ip_protocol::UDP) => port != aggregates && port != vxlan,
            protocol => protocol == Some(ip_protocol::TCP),
        }
    }

    #[inline(always)]
    fn datagram<S: Octets + ?Sized>(&self, frame: &S, datagram: &Datagram) -> Result<Option<Found>, Reject> {
        let &Datagram { udp, end, source, destination, class, .. } = datagram;
        let congested = class::is_congested(class);
        let port = match frame.word(udp + 2) {
            port @ Some(_) if port == self.udp_port => Port::Aggregate,
            port @ Some(_) if port == self.vxlan_port => Port::Vxlan,
            _ => return Ok(None),
        };
        let start = match port {
            Port::Aggregate => udp + header_len::UDP,
            // Inside VXLAN, only frames of our EtherType are aggregates; all others are ordinary traffic.
            Port::Vxlan if frame.word(udp + 28) == Some(ETHERTYPE) => udp + 30,
            Port::Vxlan => return Ok(None),
        };
        datagram.check(frame, start, self.zero_checksum_over_ipv6, self.verify)?;
        let (range, addresses) = (ByteRange { start, end }, Some((source, destination)));
        if let Port::Aggregate = port {
            return Ok(Some(Found { range, tail: Tail::Exact, addresses, vni: None, congested }));
        }
        let vni = Some(vxlan::vni(frame, udp + header_len::UDP)?);
        Ok(Some(Found { range, tail: Tail::Padding, addresses, vni, congested }))
    }
}

/// Returns a frame's destination IP address, after at most one VLAN tag; `None` if it carries no IP packet. For frames
/// that were rejected.
#[cold]
pub fn destination<S: Octets + ?Sized>(frame: &S) -> Option<IpAddr> {
    match network(frame)? {
        (ethertype::IPV4, at) => frame.read::<4>(at + 16).map(|octets| Ipv4Addr::from(octets).into()),
        (ethertype::IPV6, at) => frame.read::<16>(at + 24).map(|octets| Ipv6Addr::from(octets).into()),
        _ => None,
    }
}

/// The protocol on a UDP port.
#[derive(Clone, Copy)]
enum Port {
    Aggregate,
    Vxlan,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn other_frames_are_no_aggregates(
            tagged in any::<bool>(),
            ethertype in prop::sample::select(vec![ethertype::IPV4, ethertype::IPV6, ethertype::ARP]),
            version in prop::sample::select(vec![0x45, 0x46, 0x44, 0x65, 0x60]),
            fragment in prop::sample::select(vec![0u16, 0x2000, 0x1fff]),
            protocol in prop::sample::select(vec![ip_protocol::UDP, ip_protocol::TCP, ip_protocol::ICMPV6]),
            port in prop::sample::select(vec![UDP_PORT, VXLAN_PORT, 53]),
            inner in prop::sample::select(vec![ETHERTYPE, ethertype::IPV4]),
            cut in 10..100usize,
            receiver in prop::sample::select(vec![Some(UDP_PORT), None])
                .prop_map(|udp_port| Receiver { udp_port, verify: false, ..Receiver::default() }),
        ) {
            let mut frame = vec![0; 100];
            let at = if tagged { 18 } else { 14 };
            let (in_header, udp) = if ethertype == ethertype::IPV6 { (6, 40) } else { (9, 20) };
            frame[12..14].copy_from_slice(&ethertype::VLAN.to_be_bytes());
            frame[at - 2..at].copy_from_slice(&ethertype.to_be_bytes());
            frame[at] = version;
            frame[at + 2..at + 4].copy_from_slice(&60u16.to_be_bytes());
            frame[at + 6..at + 8].copy_from_slice(&fragment.to_be_bytes());
            frame[at + in_header] = protocol;
            frame[at + udp + 2..at + udp + 4].copy_from_slice(&port.to_be_bytes());
            frame[at + udp + 28..at + udp + 30].copy_from_slice(&inner.to_be_bytes());
            frame.truncate(cut);
            prop_assert_eq!(receiver.find(&frame[..]), receiver.find_at(&frame[..], network(&frame[..])));
        }
    }
}
