//! The fields of a packet that identify its service chain.

use crate::octets::Octets;
use packet::{ethertype, header_len, ip_protocol};

/// The VXLAN port of RFC 7348.
pub const VXLAN_PORT: u16 = 4789;
/// The I flag of RFC 7348: the VNI is valid.
pub(crate) const VXLAN_VALID: u8 = 0x08;

/// Returns the VID of the outermost VLAN tag; `None` without a tag, and for VID 0, which means no VLAN (IEEE 802.1Q 9.6).
#[inline(always)]
pub fn vid<S: Octets + ?Sized>(packet: &S) -> Option<u16> {
    vid_of(packet.read::<4>(header_len::MAC_ADDRESSES)?)
}

/// Same as [`vid`], for the four bytes after the MAC addresses.
#[inline(always)]
pub(crate) fn vid_of([e0, e1, t0, t1]: [u8; 4]) -> Option<u16> {
    let tagged = ethertype::is_vlan(u16::from_be_bytes([e0, e1]));
    let vid = u16::from_be_bytes([t0, t1]) & 0xfff;
    (tagged && vid != 0).then_some(vid)
}

/// Returns the VNI of a VXLAN packet to UDP port `port`, over IPv4 or IPv6, after at most one VLAN tag.
#[inline]
pub fn vni<S: Octets + ?Sized>(packet: &S, port: u16) -> Option<u32> {
    let (kind, ip) = network(packet)?;
    let udp = match kind {
        ethertype::IPV4 => {
            let [first, .., f0, f1, _ttl, protocol] = packet.read::<10>(ip)?;
            let whole = u16::from_be_bytes([f0, f1]) & 0x3fff == 0;
            ((0x45..=0x4f).contains(&first) && whole && protocol == ip_protocol::UDP)
                .then_some(ip + usize::from(first & 15) * 4)?
        }
        ethertype::IPV6 => {
            (packet.byte(ip)? >> 4 == 6 && packet.byte(ip + 6)? == ip_protocol::UDP).then_some(ip + header_len::IPV6)?
        }
        _ => return None,
    };
    if packet.word(udp + 2)? != port {
        return None;
    }
    let [flags, _, _, _, v0, v1, v2, _] = packet.read::<8>(udp + header_len::UDP)?;
    (flags & VXLAN_VALID != 0).then_some(u32::from_be_bytes([0, v0, v1, v2]))
}

/// Returns the EtherType after at most one VLAN tag, and the offset after it.
#[inline(always)]
pub(crate) fn network<S: Octets + ?Sized>(packet: &S) -> Option<(u16, usize)> {
    match packet.word(header_len::MAC_ADDRESSES)? {
        ethertype::VLAN | ethertype::SERVICE_VLAN => Some((packet.word(16)?, 18)),
        other => Some((other, header_len::ETHERNET)),
    }
}
