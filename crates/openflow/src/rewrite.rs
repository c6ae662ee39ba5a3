//! Applies actions to the headers of a packet, and updates its checksums incrementally (RFC 1624).
//!
//! Only the first bytes of the packet are copied and changed; the rest stays in place, and is sent behind them.

use crate::action::Action;
use crate::field::Field;
use crate::key::HEADER_BYTES;
use crate::offsets::Offsets;
use packet::checksum::{self, Change};
use packet::header_len::VLAN_TAG;
use packet::ip_protocol::{ICMPV6, TCP, UDP};

/// Bytes in front, for added VLAN tags.
const ROOM: usize = 32;

/// The headers of one packet.
#[derive(Clone, Debug)]
pub struct Headers {
    bytes: [u8; ROOM + HEADER_BYTES],
    start: usize,
    end: usize,
    /// The tunnel that the packet is in, or that an action has set.
    pub tunnel_id: u64,
}

impl Headers {
    /// Copies the headers of `packet`, which is in tunnel `tunnel_id` or 0.
    pub fn new(packet: &[u8], tunnel_id: u64) -> Headers {
        let taken = packet.len().min(HEADER_BYTES);
        let mut bytes = [0; ROOM + HEADER_BYTES];
        bytes[ROOM..ROOM + taken].copy_from_slice(&packet[..taken]);
        Headers { bytes, start: ROOM, end: ROOM + taken, tunnel_id }
    }

    /// Returns the current headers. They replace the first [`Self::taken`] bytes of the packet.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Returns the number of bytes copied from the packet.
    pub fn taken(&self) -> usize {
        self.end - ROOM
    }

    /// Applies one action; the caller handles outputs. A field that the packet does not have is not set.
    pub fn apply(&mut self, action: &Action) {
        match *action {
            Action::PushVlan(ethertype) => self.push(ethertype),
            Action::PopVlan => self.pop(),
            Action::SetField(Field::TunnelId, id) => self.tunnel_id = id as u64,
            Action::SetField(field, value) => {
                let packet = &mut self.bytes[self.start..self.end];
                if let Some(offsets) = Offsets::of(packet) {
                    set(packet, &offsets, field, value);
                }
            }
            Action::Output { .. } | Action::SetNfi(_) => {}
        }
    }

    /// Adds a tag with the VID and priority of the current outermost one (Section 7.2.4.3).
    fn push(&mut self, ethertype: u16) {
        let Some(offsets) = Offsets::of(self.bytes()).filter(|_| self.start >= VLAN_TAG) else { return };
        let packet = &mut self.bytes[self.start - VLAN_TAG..self.end];
        packet.copy_within(VLAN_TAG..16, 0);
        let tci = if offsets.tagged { [packet[18], packet[19]] } else { [0; 2] };
        packet[12..14].copy_from_slice(&ethertype.to_be_bytes());
        packet[14..16].copy_from_slice(&tci);
        self.start -= VLAN_TAG;
    }

    fn pop(&mut self) {
        if Offsets::of(self.bytes()).is_some_and(|offsets| offsets.tagged) {
            self.bytes[self.start..self.end].copy_within(..12, VLAN_TAG);
            self.start += VLAN_TAG;
        }
    }
}

/// Sets a field of `packet`, if it is complete.
fn set(packet: &mut [u8], offsets: &Offsets, field: Field, value: u128) {
    let ip = offsets.network;
    let transport = offsets.transport.filter(|_| offsets.ip.is_some());
    let at = match (field, offsets.ip, offsets.protocol) {
        (Field::EthDst, ..) => Some(0),
        (Field::EthSrc, ..) => Some(6),
        (Field::VlanVid | Field::VlanPcp, ..) if offsets.tagged => {
            let tci = u16::from_be_bytes([packet[14], packet[15]]);
            let tci = match field {
                Field::VlanVid => tci & 0xf000 | value as u16 & 0xfff,
                _ => tci & 0x1fff | (value as u16) << 13,
            };
            packet[14..16].copy_from_slice(&tci.to_be_bytes());
            None
        }
        (Field::Ipv4Src, Some(4), _) => Some(ip + 12),
        (Field::Ipv4Dst, Some(4), _) => Some(ip + 16),
        (Field::Ipv6Src, Some(6), _) => Some(ip + 8),
        (Field::Ipv6Dst, Some(6), _) => Some(ip + 24),
        (Field::TcpSrc, _, TCP) | (Field::UdpSrc, _, UDP) => transport,
        (Field::TcpDst, _, TCP) | (Field::UdpDst, _, UDP) => transport.map(|at| at + 2),
        _ => None,
    };
    let Some(at) = at.filter(|at| at + field.len() <= packet.len()) else { return };
    let new = value.to_be_bytes();
    let new = &new[16 - field.len()..];
    // Fields begin at even offsets of what a checksum covers; no checksum covers MAC addresses.
    let change = Change::between(&packet[at..at + field.len()], new);
    packet[at..at + field.len()].copy_from_slice(new);
    let address = match field {
        Field::Ipv4Src | Field::Ipv4Dst => {
            adjust(packet, Some(ip + 10), change, false);
            true
        }
        Field::Ipv6Src | Field::Ipv6Dst => true,
        Field::EthDst | Field::EthSrc => return,
        _ => false,
    };
    match offsets.protocol {
        TCP => adjust(packet, transport.map(|at| at + 16), change, false),
        UDP => adjust(packet, transport.map(|at| at + 6), change, true),
        // ICMPv6 covers the addresses, ICMP does not.
        ICMPV6 if address && offsets.ip == Some(6) => adjust(packet, transport.map(|at| at + 2), change, false),
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
