//! The headers around an aggregate or a tunnelled frame: built once per next hop, completed for each packet sent.

use crate::header::{ETHERTYPE, HEADER_LEN, Header, entry_size};
use crate::table::key::VXLAN_VALID;
use packet::checksum::{self, Sum};
use packet::{MacAddr, ethertype, header_len, ip_protocol};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Length of a VXLAN header.
pub(crate) const VXLAN_LEN: usize = 8;
/// Maximum length of all headers: Ethernet, tag, IPv6, UDP, VXLAN, Ethernet, and the aggregate's own.
pub const MAX_HEADERS: usize = header_len::ETHERNET
    + header_len::VLAN_TAG
    + header_len::IPV6
    + header_len::UDP
    + VXLAN_LEN
    + header_len::ETHERNET
    + HEADER_LEN;

/// The way to a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Source of the outer Ethernet header.
    pub source: MacAddr,
    /// Destination of the outer Ethernet header: the next hop itself, or the router before it.
    pub destination: MacAddr,
    /// The VID of an 802.1Q tag in the outer Ethernet header.
    pub vlan: Option<u16>,
    /// Whether routers are on the way, which know nothing of the packets: every packet then travels in an aggregate, with its traffic
    /// class on the outer IP header.
    pub routed: bool,
    /// The encapsulation of the aggregate.
    pub carrier: Carrier,
}

/// The encapsulation of an aggregate on its way to the next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Directly in an Ethernet frame: for links without routing, such as those to a network function.
    Ethernet,
    /// A UDP datagram.
    Udp(Tunnel),
    /// An Ethernet frame in VXLAN.
    Vxlan {
        /// The tunnel; its destination port is normally [`crate::table::key::VXLAN_PORT`].
        tunnel: Tunnel,
        /// The virtual network.
        vni: u32,
        /// Source of the inner Ethernet header.
        source: MacAddr,
        /// Destination of the inner Ethernet header.
        destination: MacAddr,
    },
}

/// A UDP tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// IP addresses.
    pub addresses: Addresses,
    /// Source port: the same for all aggregates to one next hop, so that the network keeps them in order; different for
    /// different next hops, so that the network spreads them over paths and queues.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// The UDP checksum.
    pub checksum: Checksum,
}

/// The IP addresses of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names say it.
pub enum Addresses {
    V4 { source: Ipv4Addr, destination: Ipv4Addr },
    V6 { source: Ipv6Addr, destination: Ipv6Addr },
}

/// The UDP checksum to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Zero. Always allowed over IPv4 (RFC 768), and over IPv6 if the receiver is configured to accept it (RFC 6935).
    Zero,
    /// The checksum over everything, as IPv6 requires (RFC 8200, Section 8.1).
    Computed,
}

/// Reason why a route can't carry aggregates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// VNIs have 24 bits.
    #[error("VNI {0} is beyond 16777215, the largest one")]
    Vni(u32),
    /// UDP port 0 is reserved.
    #[error("UDP port 0 can't be sent from or to; choose another one")]
    Port,
    /// The MTU is too small to join any packets.
    #[error("an MTU of {mtu} leaves no room for two packets of 60 bytes; it must be at least {least}")]
    Mtu {
        /// The given MTU.
        mtu: u16,
        /// The smallest MTU that works.
        least: u16,
    },
}

/// Complete headers, the aggregate's own included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    bytes: [u8; MAX_HEADERS],
    len: u8,
}

impl std::ops::Deref for Headers {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

/// Outer headers, complete except for lengths and checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outer {
    headers: Headers,
    /// Bytes of the outer Ethernet header, with its tag.
    link: u8,
    ip: Ip,
    checksum: Checksum,
}

/// Headers to one next hop, complete except for lengths, number and checksums.
#[derive(Clone, Debug)]
pub struct Template {
    outer: Outer,
    room: u32,
    routed: bool,
}

/// The part of the checksums that is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ip {
    None,
    /// Sums of the IPv4 header and of the pseudo header (RFC 768), both without length.
    V4 {
        header: Sum,
        pseudo: Sum,
    },
    /// Sum of the pseudo header (RFC 8200, Section 8.1), without length.
    V6 {
        pseudo: Sum,
    },
}

impl Outer {
    /// Builds an Ethernet header, with a tag if there is a VLAN, followed by IP and UDP headers if there is a tunnel.
    pub(crate) fn new(
        source: MacAddr,
        destination: MacAddr,
        vlan: Option<u16>,
        tunnel: Option<&Tunnel>,
    ) -> Result<Outer, RouteError> {
        let headers = Headers { bytes: [0; MAX_HEADERS], len: 0 };
        let mut outer = Outer { headers, link: 0, ip: Ip::None, checksum: Checksum::Zero };
        let inner = match tunnel.map(|tunnel| tunnel.addresses) {
            None => ETHERTYPE,
            Some(Addresses::V4 { .. }) => ethertype::IPV4,
            Some(Addresses::V6 { .. }) => ethertype::IPV6,
        };
        match vlan {
            Some(vid) => {
                outer.put_ethernet(destination, source, ethertype::VLAN);
                outer.put(&vid.to_be_bytes());
                outer.put(&inner.to_be_bytes());
            }
            None => outer.put_ethernet(destination, source, inner),
        }
        outer.link = outer.headers.len;
        if let Some(tunnel) = tunnel {
            if tunnel.source_port == 0 || tunnel.destination_port == 0 {
                return Err(RouteError::Port);
            }
            outer.checksum = tunnel.checksum;
            outer.put_tunnel(tunnel);
        }
        Ok(outer)
    }

    /// Adds a VXLAN header (RFC 7348, Section 5).
    pub(crate) fn put_vxlan(&mut self, vni: u32) -> Result<(), RouteError> {
        if vni >= 1 << 24 {
            return Err(RouteError::Vni(vni));
        }
        self.put(&[VXLAN_VALID, 0, 0, 0]);
        self.put(&(vni << 8).to_be_bytes());
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) {
        let at = self.len();
        self.headers.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.headers.len += bytes.len() as u8;
    }

    fn put_ethernet(&mut self, destination: MacAddr, source: MacAddr, ethertype: u16) {
        self.put(&destination.0);
        self.put(&source.0);
        self.put(&ethertype.to_be_bytes());
    }

    /// Adds IP and UDP headers, and stores the known part of their sums.
    fn put_tunnel(&mut self, tunnel: &Tunnel) {
        let mut pseudo = Sum::new();
        pseudo.add_word(u16::from(ip_protocol::UDP));
        let at = self.len();
        match tunnel.addresses {
            Addresses::V4 { source, destination } => {
                // Don't fragment, so the identification may be anything (RFC 6864): 0.
                self.put(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, tunnel.hop_limit, ip_protocol::UDP, 0, 0]);
                self.put(&source.octets());
                self.put(&destination.octets());
                let mut header = Sum::new();
                header.add(&self.headers[at..]);
                pseudo.add(&self.headers[at + 12..]);
                self.ip = Ip::V4 { header, pseudo };
            }
            Addresses::V6 { source, destination } => {
                self.put(&[0x60, 0, 0, 0, 0, 0, ip_protocol::UDP, tunnel.hop_limit]);
                self.put(&source.octets());
                self.put(&destination.octets());
                pseudo.add(&self.headers[at + 8..]);
                self.ip = Ip::V6 { pseudo };
            }
        }
        self.put(&tunnel.source_port.to_be_bytes());
        self.put(&tunnel.destination_port.to_be_bytes());
        self.put(&[0; 4]);
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.headers.len as usize
    }

    /// Returns the offset of the outer Ethernet header's end.
    #[inline(always)]
    pub(crate) fn link(&self) -> usize {
        self.link as usize
    }

    /// Returns the offset of the UDP header, if there is one.
    #[inline(always)]
    fn udp(&self) -> Option<usize> {
        match self.ip {
            Ip::None => None,
            Ip::V4 { .. } => Some(self.link() + header_len::IPV4),
            Ip::V6 { .. } => Some(self.link() + header_len::IPV6),
        }
    }

    #[inline(always)]
    pub(crate) fn wants_sum(&self) -> bool {
        self.checksum == Checksum::Computed
    }

    /// Returns the headers without lengths and checksums.
    pub(crate) fn headers(&self) -> Headers {
        self.headers
    }

    /// Writes lengths and checksums into `out`, either fresh from [`Self::headers`] or completed before, for `size`
    /// following bytes whose sum is `sum`. Also replaces the UDP source port, if one is given.
    #[inline(always)]
    pub(crate) fn complete(&self, out: &mut Headers, source_port: Option<u16>, size: u32, sum: Sum) {
        self.complete_with(out, source_port, 0, size, sum);
    }

    /// Does so with a traffic class.
    #[inline(always)]
    fn complete_with(&self, out: &mut Headers, source_port: Option<u16>, class: u8, size: u32, sum: Sum) {
        let len = self.len();
        let Some(udp) = self.udp() else { return };
        let ip = self.link();
        if let Some(port) = source_port {
            out.bytes[udp..udp + 2].copy_from_slice(&port.to_be_bytes());
        }
        let udp_len = ((len - udp) as u32 + size) as u16;
        out.bytes[udp + 4..udp + 6].copy_from_slice(&udp_len.to_be_bytes());
        let mut pseudo = match self.ip {
            Ip::V4 { mut header, pseudo } => {
                let total = udp_len + header_len::IPV4 as u16;
                header.add_word(total);
                header.add_word(class.into());
                out.bytes[ip + 1] = class;
                out.bytes[ip + 2..ip + 4].copy_from_slice(&total.to_be_bytes());
                out.bytes[ip + 10..ip + 12].copy_from_slice(&header.finish().to_be_bytes());
                pseudo
            }
            Ip::V6 { pseudo } => {
                (out.bytes[ip], out.bytes[ip + 1]) = (0x60 | class >> 4, class << 4);
                out.bytes[ip + 4..ip + 6].copy_from_slice(&udp_len.to_be_bytes());
                pseudo
            }
            Ip::None => Sum::new(),
        };
        if self.wants_sum() {
            pseudo.add_word(udp_len);
            out.bytes[udp + 6..udp + 8].fill(0);
            pseudo.add(&out.bytes[udp..len]);
            pseudo.add_sum(sum);
            let checksum = checksum::never_zero(pseudo.finish());
            out.bytes[udp + 6..udp + 8].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

impl Template {
    /// Builds the headers for `route`. `mtu` is the longest payload of an outer Ethernet frame: it includes the IP header,
    /// but not the tag.
    pub fn new(route: &Route, mtu: u16) -> Result<Template, RouteError> {
        let tunnel = match &route.carrier {
            Carrier::Ethernet => None,
            Carrier::Udp(tunnel) | Carrier::Vxlan { tunnel, .. } => Some(tunnel),
        };
        let mut outer = Outer::new(route.source, route.destination, route.vlan, tunnel)?;
        if let Carrier::Vxlan { vni, source, destination, .. } = route.carrier {
            outer.put_vxlan(vni)?;
            outer.put_ethernet(destination, source, ETHERTYPE);
        }
        outer.put(&Header { number: 0 }.to_bytes());
        let taken = (outer.len() - outer.link()) as u32;
        let room = u32::from(mtu).saturating_sub(taken);
        let least = 2 * entry_size(60);
        if room < least {
            return Err(RouteError::Mtu { mtu, least: (taken + least) as u16 });
        }
        Ok(Template { outer, room, routed: route.routed })
    }

    /// Returns the length of the headers, the aggregate's own included; packets follow them.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)] // Headers are never empty.
    pub fn len(&self) -> usize {
        self.outer.len()
    }

    /// Returns the bytes that fit into an aggregate within the MTU: packets with their lengths and padding.
    #[inline(always)]
    pub fn room(&self) -> u32 {
        self.room
    }

    /// Reports whether routers are on the way: see [`Route::routed`]. [`Self::headers_of_class`] then takes the packets' class.
    #[inline(always)]
    pub fn is_routed(&self) -> bool {
        self.routed
    }

    /// Reports whether [`Self::headers`] needs the sum of everything after the headers.
    #[inline(always)]
    pub fn wants_sum(&self) -> bool {
        self.outer.wants_sum()
    }

    /// Returns the headers of an aggregate of `number` packets, which take `size` bytes with their lengths and padding
    /// ([`crate::plan::Group::size`]), at most [`Self::room`]. `sum` is the sum of these bytes, ignored unless
    /// [`Self::wants_sum`].
    #[inline]
    pub fn headers(&self, number: u16, size: u32, sum: Sum) -> Headers {
        self.headers_of_class(0, number, size, sum)
    }

    /// The same, with a traffic class on the outer IP header, if there is one.
    #[inline]
    pub fn headers_of_class(&self, class: u8, number: u16, size: u32, sum: Sum) -> Headers {
        let mut out = self.outer.headers();
        let len = self.len();
        out.bytes[len - 2..len].copy_from_slice(&number.to_be_bytes());
        self.outer.complete_with(&mut out, None, class, size, sum);
        out
    }
}
