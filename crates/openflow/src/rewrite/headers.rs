//! The headers of a packet, as actions change them.

use super::undone::Undone;
use super::{pseudo_header, ttl};
use crate::flows::Action;
use crate::keys::{HEADER_BYTES, Key, NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION, Offsets, SNAP_LEN};
use crate::wire::Field;
use packet::checksum::{self, Change};
use packet::crc32c;
use packet::header_len::{MAC_ADDRESSES, MPLS, SCTP as SCTP_HEADER, VLAN_TAG};
use packet::ip_protocol::{ICMP, ICMPV6, SCTP, TCP, UDP};

/// Bytes in front, for added VLAN tags and MPLS labels.
const ROOM: usize = 32;

/// Bytes of a packet that are copied at most.
const MOST: usize = 2 * HEADER_BYTES;

/// Where the checksums are in transport headers.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;
const ICMP_CHECKSUM: usize = 2;

/// Bytes of a transport header that actions change at most: those of a message about a neighbour, with its target and four options.
const LONGEST: usize = 8 + 16 + 4 * 8;

/// The headers of one packet.
#[derive(Clone, Debug)]
pub struct Headers {
    bytes: [u8; ROOM + MOST],
    start: usize,
    end: usize,
    /// Length of the packet as it came.
    len: usize,
    /// The tunnel that the packet is in, or that an action has set.
    pub tunnel_id: u64,
}

impl Default for Headers {
    /// Returns those of an empty packet.
    fn default() -> Headers {
        Headers { bytes: [0; ROOM + MOST], start: ROOM, end: ROOM, len: 0, tunnel_id: 0 }
    }
}

impl Headers {
    /// Copies the headers of a packet of `len` bytes that begins with `packet`, and is in tunnel `tunnel_id` or 0.
    pub fn new(packet: &[u8], len: usize, tunnel_id: u64) -> Headers {
        let mut headers = Headers::default();
        headers.set(packet, len, tunnel_id);
        headers
    }

    /// Does the same in place.
    pub fn set(&mut self, packet: &[u8], len: usize, tunnel_id: u64) {
        let taken = packet.len().min(HEADER_BYTES);
        self.bytes[ROOM..ROOM + taken].copy_from_slice(&packet[..taken]);
        (self.start, self.end, self.len, self.tunnel_id) = (ROOM, ROOM + taken, len, tunnel_id);
    }

    /// Returns the current headers. They replace the first [`Self::taken`] bytes of the packet.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Returns the number of bytes copied from the packet.
    pub fn taken(&self) -> usize {
        self.end - ROOM
    }

    /// Returns the key of the packet as it is now, received at port `in_port`: of as many bytes as that of any packet.
    pub fn key(&self, in_port: u32) -> Option<Key> {
        let bytes = self.bytes();
        Key::extract(&bytes[..bytes.len().min(HEADER_BYTES)], in_port, self.tunnel_id)
    }

    /// Reports whether there are bytes of the packet that were not copied.
    fn is_part(&self) -> bool {
        self.taken() < self.len
    }

    /// Copies more of the packet, if it is longer and there is room.
    #[cold]
    fn take_more(&mut self, more: impl Fn(usize, &mut [u8])) {
        let (taken, end) = (self.taken(), self.len.min(MOST));
        if taken < end {
            more(taken, &mut self.bytes[self.end..ROOM + end]);
            self.end = ROOM + end;
        }
    }

    /// Applies one action; the caller handles outputs. A field that the packet does not have is not set. `more` copies bytes of the
    /// packet from an offset on, if they are needed.
    pub fn apply(&mut self, action: &Action, more: impl Fn(usize, &mut [u8])) -> Result<(), Undone> {
        if self.is_part() && self.bytes().len() < HEADER_BYTES {
            // Tags or labels were removed: what is behind them may be wanted.
            self.take_more(&more);
        }
        match *action {
            Action::PushVlan(ethertype) => self.push_vlan(ethertype),
            Action::PopVlan => self.pop_vlan(),
            Action::PushMpls(ethertype) => self.push_mpls(ethertype),
            Action::PopMpls(ethertype) => self.pop_mpls(ethertype),
            Action::SetField(Field::TunnelId, id) => self.tunnel_id = id as u64,
            Action::SetField(field, value) => return self.set_field(field, value, more),
            Action::Output { .. } | Action::Group(_) | Action::SetNfi(_) => {}
            Action::SetMplsTtl(_)
            | Action::DecMplsTtl
            | Action::SetIpTtl(_)
            | Action::DecIpTtl
            | Action::CopyTtlOut
            | Action::CopyTtlIn => return ttl::apply(&mut self.bytes[self.start..self.end], action),
        }
        Ok(())
    }

    fn set_field(&mut self, field: Field, value: u128, more: impl Fn(usize, &mut [u8])) -> Result<(), Undone> {
        let Some(mut offsets) = Offsets::of(self.bytes()) else { return Ok(()) };
        if self.is_part() && may_be_beyond(self.bytes(), &offsets) {
            offsets = self.reach(field, more)?;
        }
        set(&mut self.bytes[self.start..self.end], &offsets, field, value);
        Ok(())
    }

    /// Copies more of the packet, if the field or a checksum that covers it lies there.
    #[cold]
    fn reach(&mut self, field: Field, more: impl Fn(usize, &mut [u8])) -> Result<Offsets, Undone> {
        let is_beyond =
            |headers: &Headers, offsets: &Offsets| headers.is_part() && is_beyond(headers.bytes(), offsets, field);
        let offsets = |headers: &Headers| Offsets::of(headers.bytes()).unwrap_or_default();
        if is_beyond(self, &offsets(self)) {
            self.take_more(more);
        }
        let offsets = offsets(self);
        if is_beyond(self, &offsets) { Err(Undone::TooDeep) } else { Ok(offsets) }
    }

    /// Raises the drop precedence of an assured-forwarding class (RFC 2597) by so many levels, as far as there are any. Other packets
    /// stay as they are.
    pub fn raise_drop_precedence(&mut self, levels: u8) {
        let packet = &mut self.bytes[self.start..self.end];
        let Some(offsets) = Offsets::of(packet) else { return };
        let Some(dscp) = get(packet, &offsets, Field::IpDscp) else { return };
        let (class, precedence) = (dscp >> 3, dscp >> 1 & 3);
        if (1..=4).contains(&class) && precedence > 0 && dscp & 1 == 0 {
            let raised = (precedence + u128::from(levels)).min(3);
            set(packet, &offsets, Field::IpDscp, class << 3 | raised << 1);
        }
    }

    /// Adds a tag with the VID and priority of the current outermost one (Section 7.2.4.3).
    fn push_vlan(&mut self, ethertype: u16) {
        let Some(offsets) = Offsets::of(self.bytes()).filter(|_| self.start >= VLAN_TAG) else { return };
        let packet = &mut self.bytes[self.start - VLAN_TAG..self.end];
        packet.copy_within(VLAN_TAG..16, 0);
        let tci = if offsets.tagged { [packet[18], packet[19]] } else { [0; 2] };
        packet[12..14].copy_from_slice(&ethertype.to_be_bytes());
        packet[14..16].copy_from_slice(&tci);
        self.start -= VLAN_TAG;
    }

    fn pop_vlan(&mut self) {
        if Offsets::of(self.bytes()).is_some_and(|offsets| offsets.tagged) {
            self.bytes[self.start..self.end].copy_within(..MAC_ADDRESSES, VLAN_TAG);
            self.start += VLAN_TAG;
        }
    }

    /// Adds a label behind VLAN tags: a copy of the current outermost one, or one with the TTL of IP (Section 7.2.4.3).
    fn push_mpls(&mut self, ethertype: u16) {
        let Some(offsets) = Offsets::of(self.bytes()).filter(|_| self.start >= MPLS) else { return };
        let (at, before) = (offsets.network, self.bytes());
        let entry = match before.get(at..).and_then(|rest| rest.first_chunk::<MPLS>()) {
            // The bottom of the stack is the label that was there.
            Some([a, b, c, ttl]) if offsets.is_mpls(before) => [*a, *b, c & !1, *ttl],
            _ => [0, 0, 1, ttl::of_ip(before, at).unwrap_or(0)],
        };
        let packet = &mut self.bytes[self.start - MPLS..self.end];
        packet.copy_within(MPLS..at + MPLS, 0);
        packet[at - 2..at].copy_from_slice(&ethertype.to_be_bytes());
        packet[at..at + MPLS].copy_from_slice(&entry);
        add_to_length(packet, &offsets, MPLS as u16);
        self.start -= MPLS;
    }

    fn pop_mpls(&mut self, ethertype: u16) {
        let Some(offsets) = Offsets::of(self.bytes()).filter(|offsets| offsets.is_mpls(self.bytes())) else { return };
        let (at, packet) = (offsets.network, &mut self.bytes[self.start..self.end]);
        packet[at - 2..at].copy_from_slice(&ethertype.to_be_bytes());
        add_to_length(packet, &offsets, (MPLS as u16).wrapping_neg());
        packet.copy_within(..at, MPLS);
        self.start += MPLS;
    }
}

/// Adds to the length in front of a SNAP header, if there is one (IEEE 802.3 §3.2.6).
fn add_to_length(packet: &mut [u8], offsets: &Offsets, more: u16) {
    if offsets.snap
        && let Some(length) = packet[..offsets.network - SNAP_LEN].last_chunk_mut::<2>()
    {
        *length = u16::from_be_bytes(*length).wrapping_add(more).to_be_bytes();
    }
}

/// Where a field is in a packet: the bytes that are changed, and the bits of them that are the field's.
struct Place {
    at: usize,
    len: usize,
    shift: u32,
}

/// Returns where a field is; the bytes begin at an even offset of what a checksum covers.
#[inline(always)]
fn place(packet: &[u8], offsets: &Offsets, field: Field) -> Option<Place> {
    let ip = offsets.network;
    let transport = offsets.transport.filter(|_| offsets.ip.is_some());
    let kind = || Some(*packet.get(transport?)?);
    let whole = |at: usize| Some(Place { at, len: field.len(), shift: 0 });
    let part = |at: usize, len: usize, shift: u32| Some(Place { at, len, shift });
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

/// Which checksums cover a field.
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

/// Reports whether what actions change of a transport header may be behind these bytes of a packet.
fn may_be_beyond(packet: &[u8], offsets: &Offsets) -> bool {
    offsets.is_cut || offsets.transport.is_some_and(|at| at + LONGEST > packet.len())
}

/// Reports whether a field, or a checksum that covers it, may be behind these bytes of a packet.
fn is_beyond(packet: &[u8], offsets: &Offsets, field: Field) -> bool {
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
fn get(packet: &[u8], offsets: &Offsets, field: Field) -> Option<u128> {
    let Place { at, len, shift } = place(packet, offsets, field)?;
    let value = packet.get(at..at + len)?.iter().fold(0, |value, byte| value << 8 | u128::from(*byte));
    Some(value >> shift & field.all())
}

/// Sets a field of `packet`, if it is complete, and the checksums that cover it.
fn set(packet: &mut [u8], offsets: &Offsets, field: Field, value: u128) {
    let Some(Place { at, len, shift }) =
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
        adjust(packet, Some(offsets.network + 10), change, false);
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
        TCP => adjust(packet, transport.map(|at| at + TCP_CHECKSUM), change, false),
        UDP => adjust(packet, transport.map(|at| at + UDP_CHECKSUM), change, true),
        // ICMPv6 covers the addresses, ICMP does not.
        ICMPV6 if offsets.ip == Some(6) => adjust(packet, transport.map(|at| at + ICMP_CHECKSUM), change, false),
        ICMP if covered == Covered::Transport => adjust(packet, transport.map(|at| at + ICMP_CHECKSUM), change, false),
        _ => {}
    }
}

/// Updates the checksum at `at` by a change of the bytes that it covers. In UDP, zero means no checksum.
fn adjust(packet: &mut [u8], at: Option<usize>, change: Change, udp: bool) {
    let Some(field) = at.and_then(|at| packet.get_mut(at..)?.first_chunk_mut::<2>()) else { return };
    let old = u16::from_be_bytes(*field);
    if udp && old == 0 {
        return;
    }
    let new = change.apply(old);
    *field = if udp { checksum::never_zero(new) } else { new }.to_be_bytes();
}
