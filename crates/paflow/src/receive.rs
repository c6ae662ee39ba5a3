//! Finds the aggregate in a frame that came from the network.

use crate::checksum::Sum;
use crate::decode::Tail;
use crate::header::{ETHERTYPE, UDP_PORT};
use crate::octets::Octets;
use crate::reject::Reject;
use crate::table::key::{IPV4, IPV6, UDP, VXLAN_PORT, VXLAN_VALID, network};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What to take for an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// The UDP port of aggregates; `None` takes none over UDP.
    pub udp_port: Option<u16>,
    /// The UDP port of VXLAN; `None` takes none inside VXLAN.
    pub vxlan_port: Option<u16>,
    /// Take those in plain Ethernet frames.
    pub ethernet: bool,
    /// Take UDP over IPv6 without a checksum, as RFC 6935 allows for a tunnel's port only.
    pub zero_checksum_over_ipv6: bool,
    /// Verify UDP checksums that are there. Not needed if the NIC or the sender's kernel vouches for them.
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

/// An aggregate in a frame. Nothing inside it was looked at yet: give `span` and `tail` to [`crate::decode::locate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Offsets of the first byte of its header, and of the first byte behind it.
    pub span: (usize, usize),
    /// What may follow the last embedded packet.
    pub tail: Tail,
    /// The outer source and destination, unless it came in a plain Ethernet frame.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// The VNI, if it came inside VXLAN.
    pub vni: Option<u32>,
}

/// The UDP datagram in a frame.
struct Datagram {
    /// Where its header is, and the end of the IP packet.
    udp: usize,
    end: usize,
    source: IpAddr,
    destination: IpAddr,
}

impl Receiver {
    /// Finds an aggregate. `Ok(None)` says that the frame is none, and is to be treated like any other; an error that it
    /// claims to be one and must be dropped. One 802.1Q tag before the outer headers is skipped.
    #[inline]
    pub fn find<S: Octets + ?Sized>(&self, frame: &S) -> Result<Option<Found>, Reject> {
        match network(frame) {
            Some((ETHERTYPE, at)) if self.ethernet => {
                let span = (at, frame.size());
                Ok(Some(Found { span, tail: Tail::Padding, addresses: None, vni: None }))
            }
            Some((IPV4, at)) => self.ipv4(frame, at),
            Some((IPV6, at)) => self.ipv6(frame, at),
            _ => Ok(None),
        }
    }

    /// Whether the UDP header at `udp` is to one of the ports, and to which.
    #[inline(always)]
    fn port<S: Octets + ?Sized>(&self, frame: &S, udp: usize) -> Option<Port> {
        let port = frame.word(udp + 2);
        match port {
            Some(_) if port == self.udp_port => Some(Port::Aggregate),
            Some(_) if port == self.vxlan_port => Some(Port::Vxlan),
            _ => None,
        }
    }

    fn ipv4<S: Octets + ?Sized>(&self, frame: &S, at: usize) -> Result<Option<Found>, Reject> {
        let Some(header) = frame.read::<20>(at) else { return Ok(None) };
        let len = usize::from(header[0] & 15) * 4;
        let fragment = u16::from_be_bytes([header[6], header[7]]);
        // Later fragments have no UDP header: they are none of ours, and their first one is refused.
        if header[0] >> 4 != 4 || len < 20 || header[9] != UDP || fragment & 0x1fff != 0 {
            return Ok(None);
        }
        let [.., s0, s1, s2, s3, d0, d1, d2, d3] = header;
        let udp = at + len;
        let Some(port) = self.port(frame, udp) else { return Ok(None) };
        let end = at + usize::from(u16::from_be_bytes([header[2], header[3]]));
        let (source, destination) = (Ipv4Addr::new(s0, s1, s2, s3).into(), Ipv4Addr::new(d0, d1, d2, d3).into());
        let datagram = Datagram { udp, end, source, destination };
        self.finish(frame, port, &datagram, |sum| {
            let mut own = Sum::new();
            sum_of(frame, (at, udp), &mut own);
            if own.finish() != 0 {
                return Err(Reject::BadIpChecksum);
            }
            if fragment & 0x2000 != 0 {
                return Err(Reject::Fragmented);
            }
            sum.add(&header[12..20]);
            Ok(())
        })
    }

    fn ipv6<S: Octets + ?Sized>(&self, frame: &S, at: usize) -> Result<Option<Found>, Reject> {
        let Some(header) = frame.read::<40>(at) else { return Ok(None) };
        if header[0] >> 4 != 6 || header[6] != UDP {
            return Ok(None);
        }
        let udp = at + 40;
        let Some(port) = self.port(frame, udp) else { return Ok(None) };
        let end = udp + usize::from(u16::from_be_bytes([header[4], header[5]]));
        let address = |from: usize| {
            let octets: [u8; 16] = std::array::from_fn(|index| header[from + index]);
            IpAddr::from(Ipv6Addr::from(octets))
        };
        let datagram = Datagram { udp, end, source: address(8), destination: address(24) };
        self.finish(frame, port, &datagram, |sum| {
            sum.add(&header[8..40]);
            Ok(())
        })
    }

    /// UDP and what is behind it. `network` checks the IP header, and sums up the addresses.
    #[inline(always)]
    fn finish<S: Octets + ?Sized>(
        &self,
        frame: &S,
        port: Port,
        datagram: &Datagram,
        network: impl FnOnce(&mut Sum) -> Result<(), Reject>,
    ) -> Result<Option<Found>, Reject> {
        let &Datagram { udp, end, source, destination } = datagram;
        let start = match port {
            Port::Aggregate => udp + 8,
            // Inside VXLAN, only frames of our EtherType are ours; all others are somebody's traffic.
            Port::Vxlan if frame.word(udp + 28) == Some(ETHERTYPE) => udp + 30,
            Port::Vxlan => return Ok(None),
        };
        let mut sum = Sum::new();
        network(&mut sum)?;
        let there = frame.size();
        if end > there || start > end {
            return Err(Reject::Truncated { needed: end.max(start), there: there.min(end) });
        }
        let udp_len = frame.word(udp + 4).unwrap_or(0);
        if udp + usize::from(udp_len) != end {
            return Err(Reject::LengthMismatch { expected: udp + usize::from(udp_len), there: end });
        }
        match frame.word(udp + 6) {
            Some(0) if destination.is_ipv6() && !self.zero_checksum_over_ipv6 => return Err(Reject::NoUdpChecksum),
            Some(0) => {}
            _ if self.verify => {
                sum.add_word(u16::from(UDP));
                sum.add_word(udp_len);
                sum_of(frame, (udp, end), &mut sum);
                if sum.finish() != 0 {
                    return Err(Reject::BadUdpChecksum);
                }
            }
            _ => {}
        }
        let addresses = Some((source, destination));
        if let Port::Aggregate = port {
            return Ok(Some(Found { span: (start, end), tail: Tail::Exact, addresses, vni: None }));
        }
        match frame.read::<8>(udp + 8) {
            // The other flags are reserved, and ignored as RFC 7348 asks.
            Some([flags, _, _, _, v0, v1, v2, _]) if flags & VXLAN_VALID != 0 => {
                let vni = Some(u32::from_be_bytes([0, v0, v1, v2]));
                Ok(Some(Found { span: (start, end), tail: Tail::Padding, addresses, vni }))
            }
            Some([flags, ..]) => Err(Reject::BadVxlanFlags(flags)),
            None => Err(Reject::Truncated { needed: start, there }),
        }
    }
}

/// The IP address that a frame is for, behind at most one VLAN tag; `None` if it carries no IP packet. For those who have
/// to know it of a frame that was rejected.
#[cold]
pub fn destination<S: Octets + ?Sized>(frame: &S) -> Option<IpAddr> {
    match network(frame)? {
        (IPV4, at) => frame.read::<4>(at + 16).map(|octets| Ipv4Addr::from(octets).into()),
        (IPV6, at) => frame.read::<16>(at + 24).map(|octets| Ipv6Addr::from(octets).into()),
        _ => None,
    }
}

/// What a UDP port is for.
#[derive(Clone, Copy)]
enum Port {
    Aggregate,
    Vxlan,
}

/// Adds `frame[from..to]`.
#[inline]
fn sum_of<S: Octets + ?Sized>(frame: &S, (mut from, to): (usize, usize), sum: &mut Sum) {
    while let Some(bytes) = frame.read::<64>(from).filter(|_| from + 64 <= to) {
        sum.add(&bytes);
        from += 64;
    }
    while let Some(bytes) = frame.read::<4>(from).filter(|_| from + 4 <= to) {
        sum.add(&bytes);
        from += 4;
    }
    while let Some(byte) = frame.byte(from).filter(|_| from < to) {
        sum.add(&[byte]);
        from += 1;
    }
}
