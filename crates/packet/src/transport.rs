//! The payload of an IP packet in a frame: found behind Ethernet, VLAN tags, IP options and IPv6 extension headers.

use crate::checksum::Sum;
use crate::ethertype;
use crate::header_len::{ETHERNET, IPV4, IPV6, MAC_ADDRESSES, VLAN_TAG};
use crate::ip_protocol as protocol;

/// Most Ethernet types and IPv6 extension headers, each, that are parsed: so two VLAN tags are skipped.
const NESTED: usize = 3;

/// Returns `N` bytes from `at`, if there are so many.
pub(crate) fn read<const N: usize>(head: &[u8], at: usize) -> Option<[u8; N]> {
    head.get(at..)?.first_chunk().copied()
}

/// Returns the number in two bytes from `at`.
pub(crate) fn word(head: &[u8], at: usize) -> Option<u16> {
    read(head, at).map(u16::from_be_bytes)
}

/// Returns the EtherType after the tags of the Ethernet header `at`, and where its payload begins.
pub(crate) fn ethernet(head: &[u8], at: usize) -> Option<(u16, usize)> {
    let mut kind = at + MAC_ADDRESSES;
    for _ in 0..NESTED {
        let ethertype = word(head, kind)?;
        if !ethertype::is_vlan(ethertype) {
            return Some((ethertype, kind + ETHERNET - MAC_ADDRESSES));
        }
        kind += VLAN_TAG;
    }
    None
}

/// The payload of an IP packet that is no fragment.
pub(crate) struct Transport {
    /// The version of IP: 4 or 6.
    pub(crate) version: u8,
    /// The protocol of the payload.
    pub(crate) protocol: u8,
    /// Where it begins in the frame, and how long it is.
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// The sum of the pseudo-header's addresses.
    pub(crate) addresses: Sum,
}

impl Transport {
    /// Parses the IP header `at`, in a frame of `frame` bytes. `None` if this is no IP header, or an incomplete one, or one
    /// without the final destination.
    pub(crate) fn find(head: &[u8], ethertype: u16, at: usize, frame: usize) -> Option<Transport> {
        let mut addresses = Sum::new();
        let (version, protocol, start, end) = match ethertype {
            ethertype::IPV4 => {
                let fixed: [u8; IPV4] = read(head, at)?;
                let len = usize::from(fixed[0] & 15) * 4;
                // More fragments, or an offset (RFC 791).
                let is_fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff != 0;
                if fixed[0] >> 4 != 4 || len < IPV4 || is_fragment {
                    return None;
                }
                addresses.add(&fixed[12..]);
                (4, fixed[9], at + len, at + usize::from(word(&fixed, 2)?))
            }
            ethertype::IPV6 => {
                let fixed: [u8; IPV6] = read(head, at)?;
                if fixed[0] >> 4 != 6 {
                    return None;
                }
                addresses.add(&fixed[8..]);
                let (protocol, start) = behind_extensions(head, fixed[6], at + IPV6)?;
                (6, protocol, start, at + IPV6 + usize::from(word(&fixed, 4)?))
            }
            _ => return None,
        };
        (start <= end && end <= frame).then(|| Transport { version, protocol, start, len: end - start, addresses })
    }
}

/// Skips IPv6 extension headers (RFC 8200 §4). Returns the protocol after them and where it begins; `None` for a fragment,
/// and for a packet on a route whose next stop its destination address is: the pseudo-header has the last one.
fn behind_extensions(head: &[u8], mut next: u8, mut at: usize) -> Option<(u8, usize)> {
    for _ in 0..NESTED {
        let is_on_route = match next {
            protocol::HOP_BY_HOP | protocol::DESTINATION_OPTIONS => false,
            protocol::ROUTING => read::<4>(head, at)?[3] != 0,
            protocol::FRAGMENT => return None,
            _ => break,
        };
        let [following, len] = read(head, at)?;
        if is_on_route {
            return None;
        }
        (next, at) = (following, at + 8 + 8 * usize::from(len));
    }
    Some((next, at))
}
