//! A point-to-point VXLAN tunnel (RFC 7348): any Ethernet frame inside UDP.

use crate::datagram::{Datagram, sum_of};
use crate::header::MIN_PACKET;
use crate::neighbour::Station;
use crate::octets::{ByteRange, Octets};
use crate::outer::{Addresses, Checksum, Headers, Outer, RouteError, Tunnel, VXLAN_LEN};
use crate::reject::Reject;
use crate::table::key::{VXLAN_VALID, network};
use packet::checksum::Sum;
use packet::{MacAddr, ethertype, header_len, ip_protocol};
use std::net::IpAddr;

/// First port of the source port range (RFC 6335, Section 6), and the number of bits free below it.
const DYNAMIC_PORTS: u16 = 0xc000;
const DYNAMIC_BITS: u32 = 14;

/// The endpoints and parameters of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// Source of the outer Ethernet header.
    pub source: MacAddr,
    /// Destination of the outer Ethernet header: the other end, or the router before it.
    pub destination: MacAddr,
    /// IP addresses: the source is this end, the destination the other one.
    pub addresses: Addresses,
    /// UDP port of VXLAN, at both ends.
    pub port: u16,
    /// The virtual network.
    pub vni: u32,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// The UDP checksum to write. Received frames may have one or not, as RFC 7348 requires.
    pub checksum: Checksum,
}

/// Reason why a frame does not come out of the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stray {
    /// It is not VXLAN from the other end to this one.
    Foreign,
    /// It belongs to another virtual network.
    OtherVni(u32),
    /// Its headers are wrong.
    Wrong(Reject),
}

impl From<Reject> for Stray {
    fn from(reject: Reject) -> Stray {
        Stray::Wrong(reject)
    }
}

/// One end of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelEnd {
    outer: Outer,
    /// Its own MAC address.
    mac: MacAddr,
    /// IP addresses of the other end and of this end: source and destination of received frames.
    from: IpAddr,
    to: IpAddr,
    port: u16,
    vni: u32,
    /// Longest inner frame.
    room: u32,
}

impl TunnelEnd {
    /// Creates one end of the tunnel that `endpoints` describes. `mtu` is the longest payload of an outer Ethernet frame, IP
    /// header included.
    pub fn new(endpoints: &Endpoints, mtu: u16) -> Result<TunnelEnd, RouteError> {
        let &Endpoints { source, destination, addresses, port, vni, hop_limit, checksum } = endpoints;
        let tunnel = Tunnel { addresses, source_port: DYNAMIC_PORTS, destination_port: port, hop_limit, checksum };
        let mut outer = Outer::new(source, destination, None, Some(&tunnel))?;
        outer.put_vxlan(vni)?;
        let (from, to) = match addresses {
            Addresses::V4 { source, destination } => (destination.into(), source.into()),
            Addresses::V6 { source, destination } => (destination.into(), source.into()),
        };
        let room = (u32::from(mtu) + outer.link() as u32).saturating_sub(outer.len() as u32);
        Ok(TunnelEnd { outer, mac: source, from, to, port, vni, room })
    }

    /// Returns the bytes before the inner frame: exact when sending, and when receiving from an end that adds no
    /// options.
    #[inline(always)]
    pub fn overhead(&self) -> u32 {
        self.outer.len() as u32
    }

    /// Returns the length of the longest inner frame that fits the MTU.
    #[inline(always)]
    pub fn room(&self) -> u32 {
        self.room
    }

    /// Returns this end's addresses, as the network sees them.
    pub fn station(&self) -> Station {
        Station { mac: self.mac, addresses: vec![self.to], vlans: vec![None] }
    }

    /// Returns the start and end of the frame inside `frame`.
    #[inline]
    pub fn inside<S: Octets + ?Sized>(&self, frame: &S) -> Result<(u32, u32), Stray> {
        let ethertype = frame.word(header_len::MAC_ADDRESSES).ok_or(Stray::Foreign)?;
        let datagram = Datagram::find(frame, ethertype, header_len::ETHERNET).ok_or(Stray::Foreign)?;
        let &Datagram { udp, end, source, destination, .. } = &datagram;
        if frame.word(udp + 2) != Some(self.port) || (source, destination) != (self.from, self.to) {
            return Err(Stray::Foreign);
        }
        let start = udp + header_len::UDP + VXLAN_LEN;
        // RFC 7348, Section 4.1: a missing checksum is accepted, and one that is present may be verified.
        datagram.check(frame, start, true, true)?;
        let vni = vni(frame, udp + header_len::UDP)?;
        if vni != self.vni {
            return Err(Stray::OtherVni(vni));
        }
        let len = end - start;
        if len < usize::from(MIN_PACKET) {
            return Err(Reject::Runt(len as u16).into());
        }
        Ok((start as u32, end as u32))
    }

    /// Returns headers that are not completed for a frame yet.
    pub fn headers(&self) -> Headers {
        self.outer.headers()
    }

    /// Completes this end's `headers` for `frame`, which must not be longer than [`Self::room`].
    #[inline]
    pub fn complete<S: Octets + ?Sized>(&self, headers: &mut Headers, frame: &S) {
        let mut sum = Sum::new();
        if self.outer.wants_sum() {
            sum_of(frame, ByteRange { start: 0, end: frame.size() }, &mut sum);
        }
        self.outer.complete(headers, Some(source_port(frame)), frame.size() as u32, sum);
    }
}

/// Reads the VNI of the VXLAN header at `at`. Ignores reserved flags and fields, as RFC 7348 requires.
#[inline(always)]
pub(crate) fn vni<S: Octets + ?Sized>(frame: &S, at: usize) -> Result<u32, Reject> {
    match frame.read::<VXLAN_LEN>(at) {
        Some([flags, _, _, _, v0, v1, v2, _]) if flags & VXLAN_VALID != 0 => Ok(u32::from_be_bytes([0, v0, v1, v2])),
        Some([flags, ..]) => Err(Reject::BadVxlanFlags(flags)),
        None => Err(Reject::Truncated { needed: at + VXLAN_LEN, there: frame.size() }),
    }
}

/// Returns a UDP source port that all frames of a flow share, and other flows rarely (RFC 7348, Section 5): a hash of
/// addresses, and of ports if there are any. Later fragments have no ports, so the ports of all fragments are left out.
#[inline]
pub fn source_port<S: Octets + ?Sized>(frame: &S) -> u16 {
    let mut hash = Hash(0);
    if let Some([addresses @ .., _, _]) = frame.read::<{ header_len::ETHERNET }>(0) {
        hash.add(&addresses);
    }
    let ports = match network(frame) {
        Some((ethertype::IPV4, at)) => frame.read::<{ header_len::IPV4 }>(at).and_then(|header| {
            let [first, .., f0, f1, _, protocol, _, _, a0, a1, a2, a3, a4, a5, a6, a7] = header;
            hash.add(&[protocol, a0, a1, a2, a3, a4, a5, a6, a7]);
            let whole = u16::from_be_bytes([f0, f1]) & 0x3fff == 0;
            (whole && has_ports(protocol)).then_some(at + usize::from(first & 15) * 4)
        }),
        Some((ethertype::IPV6, at)) => frame.read::<{ header_len::IPV6 }>(at).and_then(|header| {
            let [_, _, _, _, _, _, protocol, _, addresses @ ..] = header;
            hash.add(&addresses);
            hash.add(&[protocol]);
            has_ports(protocol).then_some(at + header_len::IPV6)
        }),
        _ => None,
    };
    if let Some(ports) = ports.and_then(|at| frame.read::<4>(at)) {
        hash.add(&ports);
    }
    DYNAMIC_PORTS | (hash.0 >> (u64::BITS - DYNAMIC_BITS)) as u16
}

/// Reports whether the protocol is TCP, UDP or SCTP.
#[inline(always)]
fn has_ports(protocol: u8) -> bool {
    matches!(protocol, ip_protocol::TCP | ip_protocol::UDP | ip_protocol::SCTP)
}

/// A multiplicative hash; its upper bits are the well-mixed ones.
struct Hash(u64);

impl Hash {
    #[inline(always)]
    fn add<const N: usize>(&mut self, bytes: &[u8; N]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.mix(u64::from_le_bytes(last));
        }
    }

    #[inline(always)]
    fn mix(&mut self, word: u64) {
        /// 2^64 divided by the golden ratio.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = ((self.0 ^ word).wrapping_mul(FACTOR)).rotate_left(29).wrapping_mul(FACTOR);
    }
}
