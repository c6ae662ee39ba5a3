//! Finds the UDP datagram in a frame and checks its headers.

use crate::octets::{ByteRange, Octets};
use crate::reject::Reject;
use packet::checksum::Sum;
use packet::{ethertype, header_len, ip_protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A UDP datagram in a frame, whose headers are not checked yet.
pub(crate) struct Datagram {
    /// Offsets of the IP header, the UDP header, and the end of the IP packet.
    ip: usize,
    pub(crate) udp: usize,
    pub(crate) end: usize,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// The traffic class.
    pub(crate) class: u8,
    /// Whether it is the first of several fragments.
    fragment: bool,
    /// An IPv4 header without options.
    header: Option<[u8; header_len::IPV4]>,
}

impl Datagram {
    /// Finds the datagram of an IP packet at `at`. Returns `None` for later fragments: they have no UDP header.
    #[inline(always)]
    pub(crate) fn find<S: Octets + ?Sized>(frame: &S, ethertype: u16, at: usize) -> Option<Datagram> {
        match ethertype {
            ethertype::IPV4 => Self::ipv4(frame, at),
            ethertype::IPV6 => Self::ipv6(frame, at),
            _ => None,
        }
    }

    #[inline(always)]
    fn ipv4<S: Octets + ?Sized>(frame: &S, at: usize) -> Option<Datagram> {
        let header = frame.read::<{ header_len::IPV4 }>(at)?;
        let len = usize::from(header[0] & 15) * 4;
        let fragment = u16::from_be_bytes([header[6], header[7]]);
        if header[0] >> 4 != 4 || len < header_len::IPV4 || header[9] != ip_protocol::UDP || fragment & 0x1fff != 0 {
            return None;
        }
        let [.., s0, s1, s2, s3, d0, d1, d2, d3] = header;
        Some(Datagram {
            ip: at,
            udp: at + len,
            end: at + usize::from(u16::from_be_bytes([header[2], header[3]])),
            source: Ipv4Addr::new(s0, s1, s2, s3).into(),
            destination: Ipv4Addr::new(d0, d1, d2, d3).into(),
            class: header[1],
            fragment: fragment & 0x2000 != 0,
            header: (len == header_len::IPV4).then_some(header),
        })
    }

    #[inline(always)]
    fn ipv6<S: Octets + ?Sized>(frame: &S, at: usize) -> Option<Datagram> {
        let header = frame.read::<{ header_len::IPV6 }>(at)?;
        if header[0] >> 4 != 6 || header[6] != ip_protocol::UDP {
            return None;
        }
        let udp = at + header_len::IPV6;
        let address = |from: usize| {
            let octets: [u8; 16] = std::array::from_fn(|index| header[from + index]);
            IpAddr::from(Ipv6Addr::from(octets))
        };
        let end = udp + usize::from(u16::from_be_bytes([header[4], header[5]]));
        let (source, destination, class) = (address(8), address(24), header[0] << 4 | header[1] >> 4);
        Some(Datagram { ip: at, udp, end, source, destination, class, fragment: false, header: None })
    }

    /// Checks the headers; the caller's payload begins at `start`. Without `zero_over_ipv6`, UDP over IPv6 must have a
    /// checksum; with `verify`, a checksum that is present must be correct.
    #[inline(always)]
    pub(crate) fn check<S: Octets + ?Sized>(
        &self,
        frame: &S,
        start: usize,
        zero_over_ipv6: bool,
        verify: bool,
    ) -> Result<(), Reject> {
        let &Datagram { ip, udp, end, .. } = self;
        if self.destination.is_ipv4() {
            let mut sum = Sum::new();
            match &self.header {
                Some(header) => sum.add(header),
                None => sum_of(frame, ByteRange { start: ip, end: udp }, &mut sum),
            }
            if sum.finish() != 0 {
                return Err(Reject::BadIpChecksum);
            }
        }
        if self.fragment {
            return Err(Reject::Fragmented);
        }
        let there = frame.size();
        if end > there || start > end {
            return Err(Reject::Truncated { needed: end.max(start), there: there.min(end) });
        }
        let udp_len = frame.word(udp + 4).unwrap_or(0);
        if udp + usize::from(udp_len) != end {
            return Err(Reject::LengthMismatch { expected: udp + usize::from(udp_len), there: end });
        }
        match frame.word(udp + 6) {
            Some(0) if self.destination.is_ipv6() && !zero_over_ipv6 => Err(Reject::NoUdpChecksum),
            Some(0) => Ok(()),
            _ if verify => self.verify(frame, udp_len),
            _ => Ok(()),
        }
    }

    /// Verifies the UDP checksum (RFC 768, and RFC 8200, Section 8.1).
    fn verify<S: Octets + ?Sized>(&self, frame: &S, udp_len: u16) -> Result<(), Reject> {
        let mut sum = Sum::new();
        for address in [self.source, self.destination] {
            match address {
                IpAddr::V4(address) => sum.add(&address.octets()),
                IpAddr::V6(address) => sum.add(&address.octets()),
            }
        }
        sum.add_word(u16::from(ip_protocol::UDP));
        sum.add_word(udp_len);
        sum_of(frame, ByteRange { start: self.udp, end: self.end }, &mut sum);
        if sum.finish() == 0 { Ok(()) } else { Err(Reject::BadUdpChecksum) }
    }
}

#[inline]
pub(crate) fn sum_of<S: Octets + ?Sized>(frame: &S, range: ByteRange, sum: &mut Sum) {
    let ByteRange { start: mut at, end } = range;
    while let Some(bytes) = frame.read::<64>(at).filter(|_| at + 64 <= end) {
        sum.add(&bytes);
        at += 64;
    }
    while let Some(bytes) = frame.read::<4>(at).filter(|_| at + 4 <= end) {
        sum.add(&bytes);
        at += 4;
    }
    while let Some(byte) = frame.byte(at).filter(|_| at < end) {
        sum.add(&[byte]);
        at += 1;
    }
}
