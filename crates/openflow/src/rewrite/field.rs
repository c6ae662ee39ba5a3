//! The places of fields in a packet, and the checksums that cover them.

use super::pseudo_header;
use crate::keys::{NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION, Offsets};
use crate::wire::Field;
use packet::checksum::{self, Change};
use packet::crc32c;
use packet::header_len::SCTP as SCTP_HEADER;
use packet::ip_protocol::{ICMP, ICMPV6, SCTP, TCP, UDP};

/// Offsets of the checksums in transport headers.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;
const ICMP_CHECKSUM: usize = 2;

/// Maximum number of bytes of a transport header that actions may change: a message about a neighbour has a target and four options.
const LONGEST: usize = 8 + 16 + 4 * 8;

/// The place of a field in a packet: the bytes that are changed, and the bits of them that are the field's.
struct FieldBits {
    at: usize,
    len: usize,
    shift: u32,
}

/// Returns the place of a field. Its bytes begin at an even offset of those that a checksum covers.
#[inline(always)]
fn place(packet: &[u8], offsets: &Offsets, field: Field) -> Option<FieldBits> {
    let ip = offsets.network;
    let transport = offsets.transport.filter(|_| offsets.ip.is_some());
    let kind = || Some(*packet.get(transport?)?);
    let whole = |at: usize| Some(FieldBits { at, len: field.len(), shift: 0 });
    let part = |at: usize, len: usize, shift: u32| Some(FieldBits { at, len, shift });
    match (field, offsets.ip, offsets.protocol) {
        (Field::EthDst, ..) => whole(0),
        (Field::EthSrc, ..) => whole(6),
        (Field::VlanVid, ..) if offsets.tagged => part(14, 2, 0),
        (Field::VlanPcp, ..) if offsets.tagged => part(14, 2, 13),
        (Field::IpDscp, Some(4), _) => part(ip, 2, 2),
        (Field::IpEcn, Some(4), _) => part(ip, 2, 0),
        (Field::IpDscp, Some(6), _) => part(ip, 2, 6),
        (Field::IpEcn, Some(6), _) => part(ip, 2, 4),
        (Field::Ipv6Flabel, Some(6), _) => part(ip, 4, 0),
        (Field::Ipv4Src, Some(4), _) => whole(ip + 12),
        (Field::Ipv4Dst, Some(4), _) => whole(ip + 16),
        (Field::Ipv6Src, Some(6), _) => whole(ip + 8),
        (Field::Ipv6Dst, Some(6), _) => whole(ip + 24),
        (Field::TcpSrc, _, TCP) | (Field::UdpSrc, _, UDP) => whole(transport?),
        (Field::TcpDst, _, TCP) | (Field::UdpDst, _, UDP) => whole(transport? + 2),
        (Field::SctpSrc, _, SCTP) if offsets.sctp_len(packet).is_some() => whole(transport?),
        (Field::SctpDst, _, SCTP) if offsets.sctp_len(packet).is_some() => whole(transport? + 2),
        (Field::Icmpv4Type, Some(4), ICMP) | (Field::Icmpv6Type, Some(6), ICMPV6) => part(transport?, 2, 8),
        (Field::Icmpv4Code, Some(4), ICMP) | (Field::Icmpv6Code, Some(6), ICMPV6) => part(transport?, 2, 0),
        (Field::NdTarget, Some(6), ICMPV6) => whole(offsets.neighbour(packet, kind()?)?),
        (Field::NdSll, Some(6), ICMPV6) if kind()? == NEIGHBOUR_SOLICITATION => {
            whole(offsets.neighbour_option(packet, kind()?)?)
        }
        (Field::NdTll, Some(6), ICMPV6) if kind()? == NEIGHBOUR_ADVERTISEMENT => {
            whole(offsets.neighbour_option(packet, kind()?)?)
        }
        (Field::ArpOp, ..) if offsets.is_arp(packet) => whole(ip + 6),
        (Field::ArpSha, ..) if offsets.is_arp(packet) => whole(ip + 8),
        (Field::ArpSpa, ..) if offsets.is_arp(packet) => whole(ip + 14),
        (Field::ArpTha, ..) if offsets.is_arp(packet) => whole(ip + 18),
        (Field::ArpTpa, ..) if offsets.is_arp(packet) => whole(ip + 24),
        (Field::MplsLabel, ..) if offsets.is_mpls(packet) => part(ip, 4, 12),
        (Field::MplsTc, ..) if offsets.is_mpls(packet) => part(ip, 4, 9),
        (Field::MplsBos, ..) if offsets.is_mpls(packet) => part(ip, 4, 8),
        _ => None,
    }
}

/// The checksums that cover a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Covered {
    /// Nothing.
    No,
    /// The header checksum of IPv4.
    Header,
    /// The checksum of the transport header, by its own bytes.
    Transport,
    /// Both checksums, as the transport's covers the addresses.
    Address,
}

#[inline(always)]
fn covered(packet: &[u8], offsets: &Offsets, field: Field) -> Covered {
    use Field::*;
    match field {
        IpDscp | IpEcn if offsets.ip == Some(4) => Covered::Header,
        Ipv6Src if offsets.ip == Some(6) && !pseudo_header::has_source(packet, offsets) => Covered::No,
        Ipv6Dst if offsets.ip == Some(6) && !pseudo_header::has_destination(packet, offsets) => Covered::No,
        Ipv4Src | Ipv4Dst | Ipv6Src | Ipv6Dst => Covered::Address,
        field if field.is_transport() => Covered::Transport,
        _ => Covered::No,
    }
}

/// Reports whether a part of the transport header that actions may change is behind these bytes of a packet.
pub(super) fn may_be_beyond(packet: &[u8], offsets: &Offsets) -> bool {
    offsets.is_cut || offsets.transport.is_some_and(|at| at + LONGEST > packet.len())
}

/// Reports whether a field, or a checksum that covers it, may be behind these bytes of a packet.
pub(super) fn is_beyond(packet: &[u8], offsets: &Offsets, field: Field) -> bool {
    match covered(packet, offsets, field) {
        Covered::Transport => {}
        Covered::Address if place(packet, offsets, field).is_some() => {}
        _ => return false,
    }
    let end = match (offsets.protocol, field) {
        (ICMPV6, Field::NdTarget) => 8 + 16,
        (ICMPV6, Field::NdSll | Field::NdTll) => LONGEST,
        (ICMP | ICMPV6, _) => ICMP_CHECKSUM + 2,
        (TCP, _) => TCP_CHECKSUM + 2,
        (UDP, _) => UDP_CHECKSUM + 2,
        (SCTP, _) => SCTP_HEADER,
        _ => 0,
    };
    offsets.is_cut || end > 0 && offsets.transport.is_some_and(|at| at + end > packet.len())
}

/// Returns a field of `packet`, if it is complete.
pub(super) fn get(packet: &[u8], offsets: &Offsets, field: Field) -> Option<u128> {
    let FieldBits { at, len, shift } = place(packet, offsets, field)?;
    let value = packet.get(at..at + len)?.iter().fold(0, |value, byte| value << 8 | u128::from(*byte));
    Some(value >> shift & field.all())
}

/// Sets a field of `packet`, if it is complete, and the checksums that cover it.
pub(super) fn set(packet: &mut [u8], offsets: &Offsets, field: Field, value: u128) {
    let Some(FieldBits { at, len, shift }) =
        place(packet, offsets, field).filter(|place| place.at + place.len <= packet.len())
    else {
        return;
    };
    let mut old = [0; 16];
    old[16 - len..].copy_from_slice(&packet[at..at + len]);
    // The bit of a VID that marks a tagged packet is none of the packet's.
    let bits = if field == Field::VlanVid { 0xfff } else { field.all() };
    let new = (u128::from_be_bytes(old) & !(bits << shift) | (value & bits) << shift).to_be_bytes();
    let change = Change::between(&old[16 - len..], &new[16 - len..]);
    packet[at..at + len].copy_from_slice(&new[16 - len..]);
    let covered = covered(packet, offsets, field);
    if covered == Covered::No {
        return;
    }
    if offsets.ip == Some(4) && matches!(covered, Covered::Header | Covered::Address) {
        adjust(packet, Some(offsets.network + 10), change, Zero::Value);
    }
    if covered == Covered::Header {
        return;
    }
    let transport = offsets.transport.filter(|_| offsets.ip.is_some());
    match offsets.protocol {
        SCTP if covered == Covered::Transport => {
            let (Some(start), Some(packet_len)) = (transport, offsets.sctp_len(packet)) else { return };
            let after = packet_len - (at + len - start);
            let difference = crc32c::change(&old[16 - len..], &new[16 - len..], after).to_le_bytes();
            packet[start + 8..start + 12].iter_mut().zip(difference).for_each(|(byte, change)| *byte ^= change);
        }
        TCP => adjust(packet, transport.map(|at| at + TCP_CHECKSUM), change, Zero::Value),
        UDP => adjust(packet, transport.map(|at| at + UDP_CHECKSUM), change, Zero::None),
        // ICMPv6 covers the addresses, ICMP does not.
        ICMPV6 if offsets.ip == Some(6) => adjust(packet, transport.map(|at| at + ICMP_CHECKSUM), change, Zero::Value),
        ICMP if covered == Covered::Transport => {
            adjust(packet, transport.map(|at| at + ICMP_CHECKSUM), change, Zero::Value)
        }
        _ => {}
    }
}

/// The meaning of a checksum that is zero.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zero {
    /// That of any other value.
    Value,
    /// There is no checksum (RFC 768).
    None,
}

/// Updates the checksum at `at` by a change of the bytes that it covers.
fn adjust(packet: &mut [u8], at: Option<usize>, change: Change, zero: Zero) {
    let Some(field) = at.and_then(|at| packet.get_mut(at..)?.first_chunk_mut::<2>()) else { return };
    let old = u16::from_be_bytes(*field);
    if zero == Zero::None && old == 0 {
        return;
    }
    let new = change.apply(old);
    *field = if zero == Zero::None { checksum::never_zero(new) } else { new }.to_be_bytes();
}
