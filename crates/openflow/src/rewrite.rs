//! Applies actions to the headers of a packet, and updates its checksums incrementally (RFC 1624).
//!
//! Only the first bytes of the packet are copied and changed; the rest stays in place, and is sent behind them.

use crate::action::Action;
use crate::fields::Field;
use crate::key::{HEADER_BYTES, Layout};

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
                if let Some(layout) = Layout::of(packet) {
                    set(packet, &layout, field, value);
                }
            }
            Action::Output { .. } | Action::SetNfi(_) => {}
        }
    }

    /// Adds a tag with the VID and priority of the current outermost one (Section 7.2.4.3).
    fn push(&mut self, ethertype: u16) {
        let Some(layout) = Layout::of(self.bytes()).filter(|_| self.start >= 4) else { return };
        let packet = &mut self.bytes[self.start - 4..self.end];
        packet.copy_within(4..16, 0);
        let tci = if layout.tagged { [packet[18], packet[19]] } else { [0; 2] };
        packet[12..14].copy_from_slice(&ethertype.to_be_bytes());
        packet[14..16].copy_from_slice(&tci);
        self.start -= 4;
    }

    fn pop(&mut self) {
        if Layout::of(self.bytes()).is_some_and(|layout| layout.tagged) {
            self.bytes[self.start..self.end].copy_within(..12, 4);
            self.start += 4;
        }
    }
}

/// Sets a field of `packet`, if it is complete.
fn set(packet: &mut [u8], layout: &Layout, field: Field, value: u128) {
    let ip = layout.network;
    let transport = layout.transport.filter(|_| layout.ip.is_some());
    let at = match (field, layout.ip, layout.protocol) {
        (Field::EthDst, ..) => Some(0),
        (Field::EthSrc, ..) => Some(6),
        (Field::VlanVid | Field::VlanPcp, ..) if layout.tagged => {
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
        (Field::TcpSrc, _, 6) | (Field::UdpSrc, _, 17) => transport,
        (Field::TcpDst, _, 6) | (Field::UdpDst, _, 17) => transport.map(|at| at + 2),
        _ => None,
    };
    let Some(at) = at.filter(|at| at + field.len() <= packet.len()) else { return };
    let new = value.to_be_bytes();
    let new = &new[16 - field.len()..];
    // Fields begin at even offsets of what a checksum covers; no checksum covers MAC addresses.
    let difference = packet[at..at + field.len()].iter().zip(new).enumerate().fold(0, |sum, (index, (old, new))| {
        let shift = if index % 2 == 0 { 8 } else { 0 };
        sum + (u32::from(!old) << shift) + (u32::from(*new) << shift)
    });
    packet[at..at + field.len()].copy_from_slice(new);
    let address = match field {
        Field::Ipv4Src | Field::Ipv4Dst => {
            adjust(packet, Some(ip + 10), difference, false);
            true
        }
        Field::Ipv6Src | Field::Ipv6Dst => true,
        Field::EthDst | Field::EthSrc => return,
        _ => false,
    };
    match layout.protocol {
        6 => adjust(packet, transport.map(|at| at + 16), difference, false),
        17 => adjust(packet, transport.map(|at| at + 6), difference, true),
        // ICMPv6 covers the addresses, ICMP does not.
        58 if address && layout.ip == Some(6) => adjust(packet, transport.map(|at| at + 2), difference, false),
        _ => {}
    }
}

/// Updates the checksum at `at` by the difference in the bytes that it covers. In UDP, zero means no checksum.
fn adjust(packet: &mut [u8], at: Option<usize>, difference: u32, udp: bool) {
    let Some(checksum) = at.and_then(|at| packet.get_mut(at..)?.first_chunk_mut::<2>()) else { return };
    let old = u16::from_be_bytes(*checksum);
    if udp && old == 0 {
        return;
    }
    let mut sum = u32::from(!old) + difference;
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    let new = match !(sum as u16) {
        0 if udp => 0xffff,
        new => new,
    };
    *checksum = new.to_be_bytes();
}
