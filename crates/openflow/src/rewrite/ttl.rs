//! The time to live of packets: of MPLS labels and of IP.

use super::undone::Undone;
use crate::flows::Action;
use crate::keys::Offsets;
use packet::checksum::Change;
use packet::header_len::MPLS;

/// Offsets of the TTL in an MPLS label, in IPv4 and in IPv6.
const MPLS_TTL: usize = 3;
const IPV4_TTL: usize = 8;
const IPV6_TTL: usize = 7;

/// Returns the TTL of the IP header that begins at `at`, if it is one.
pub(super) fn of_ip(packet: &[u8], at: usize) -> Option<u8> {
    packet.get(ip_place(packet, at)?).copied()
}

fn ip_place(packet: &[u8], at: usize) -> Option<usize> {
    match packet.get(at)? >> 4 {
        4 => Some(at + IPV4_TTL),
        6 => Some(at + IPV6_TTL),
        _ => None,
    }
}

/// Applies an action on TTLs to `packet`, unless its time is over.
pub(super) fn apply(packet: &mut [u8], action: &Action) -> Result<(), Undone> {
    let Some(offsets) = Offsets::of(packet) else { return Ok(()) };
    let (at, has_mpls) = (offsets.network, offsets.is_mpls(packet));
    match *action {
        Action::SetMplsTtl(ttl) if has_mpls => packet[at + MPLS_TTL] = ttl,
        Action::DecMplsTtl if has_mpls => {
            packet[at + MPLS_TTL] = decremented(packet[at + MPLS_TTL])?;
        }
        Action::SetIpTtl(ttl) if offsets.ip.is_some() => set_ip(packet, at, ttl),
        Action::DecIpTtl if offsets.ip.is_some() => {
            let ttl = decremented(of_ip(packet, at).unwrap_or(0))?;
            set_ip(packet, at, ttl);
        }
        Action::CopyTtlOut | Action::CopyTtlIn if has_mpls => copy(packet, at, *action == Action::CopyTtlOut),
        _ => {}
    }
    Ok(())
}

/// Decrements a TTL, unless that leaves nothing of it.
fn decremented(ttl: u8) -> Result<u8, Undone> {
    if ttl > 1 { Ok(ttl - 1) } else { Err(Undone::Expired) }
}

/// Copies the TTL between the outermost label and the header behind it.
fn copy(packet: &mut [u8], at: usize, out: bool) {
    let (outer, next) = (at + MPLS_TTL, at + MPLS);
    let is_last = packet[at + 2] & 1 == 1;
    let inner = if is_last { ip_place(packet, next) } else { Some(next + MPLS_TTL) };
    let Some(inner) = inner.filter(|inner| *inner < packet.len()) else { return };
    match (out, is_last) {
        (true, _) => packet[outer] = packet[inner],
        (false, true) => set_ip(packet, next, packet[outer]),
        (false, false) => packet[inner] = packet[outer],
    }
}

/// Sets the TTL of the IP header that begins at `at`, and IPv4's checksum.
fn set_ip(packet: &mut [u8], at: usize, ttl: u8) {
    let Some(place) = ip_place(packet, at).filter(|place| *place < packet.len()) else { return };
    if place == at + IPV6_TTL {
        packet[place] = ttl;
        return;
    }
    let Some(old) = packet.get(place..).and_then(|rest| rest.first_chunk::<4>()).copied() else { return };
    // The protocol's number and the checksum follow.
    let [_, protocol, ..] = old;
    let new = [ttl, protocol];
    let checksum = Change::between(&old[..2], &new).apply(u16::from_be_bytes([old[2], old[3]]));
    packet[place] = ttl;
    packet[place + 2..place + 4].copy_from_slice(&checksum.to_be_bytes());
}
