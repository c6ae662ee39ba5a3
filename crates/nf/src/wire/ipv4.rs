//! IPv4 (RFC 791).

use super::array;
use super::ethernet::HEADER as ETHERNET;
use super::word;
use etherparse::{IpNumber, Ipv4Header};
use packet::checksum::{self, Change};
use std::net::Ipv4Addr;

/// Bytes of a header without options.
pub const MIN_HEADER: usize = Ipv4Header::MIN_LEN;
/// TTL of sent packets.
pub const TTL: u8 = 64;

/// A checked header in a frame. Its packet may continue in further buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the header, options included.
    pub len: usize,
    /// Bytes of header and payload.
    pub total_len: usize,
    /// Remaining hops.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: IpNumber,
    /// Whether the packet is a fragment: not the first one, or not the last.
    pub is_fragment: bool,
    /// Whether the packet is a fragment other than the first: it has no header of the protocol.
    pub is_later_fragment: bool,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
}

impl Header {
    /// Reads the header in a frame of EtherType [`super::ethernet::IPV4`], whose total length is `frame_len`. A router does this
    /// for every packet, and etherparse takes 5 % more of its instructions.
    pub fn read(frame: &[u8], frame_len: usize) -> Option<Header> {
        let packet = frame.get(ETHERNET..)?;
        if packet.len() < MIN_HEADER || packet[0] >> 4 != 4 {
            return None;
        }
        let len = usize::from(packet[0] & 15) * 4;
        let total_len = usize::from(word(packet, 2));
        if len < MIN_HEADER || len > packet.len() || total_len < len || total_len > frame_len - ETHERNET {
            return None;
        }
        if checksum::of(&packet[..len]) != 0 {
            return None;
        }
        let fragment = word(packet, 6);
        Some(Header {
            len,
            total_len,
            ttl: packet[8],
            protocol: IpNumber(packet[9]),
            is_fragment: fragment & 0x3fff != 0,
            is_later_fragment: fragment & 0x1fff != 0,
            source: Ipv4Addr::from(array::<4>(packet, 12)),
            destination: Ipv4Addr::from(array::<4>(packet, 16)),
        })
    }

    /// Returns the offset of the payload in the frame.
    pub fn payload(&self) -> usize {
        ETHERNET + self.len
    }
}

/// Sets the TTL of a frame with a checked header, and updates its checksum.
pub fn set_ttl(frame: &mut [u8], ttl: u8) {
    let packet = &mut frame[ETHERNET..];
    let old: [u8; 2] = array(packet, 8);
    packet[8] = ttl;
    let sum = Change::between(&old, &packet[8..10]).apply(u16::from_be_bytes(array(packet, 10)));
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Swaps the addresses of a frame with a checked header. The checksum does not depend on the order.
pub fn swap_addresses(frame: &mut [u8]) {
    let (left, right) = frame[ETHERNET + 12..ETHERNET + 20].split_at_mut(4);
    left.swap_with_slice(right);
}

/// Writes a header without options for `payload` bytes.
pub fn write(frame: &mut [u8], source: Ipv4Addr, destination: Ipv4Addr, protocol: IpNumber, payload: usize) {
    let mut header = Ipv4Header {
        total_len: (MIN_HEADER + payload) as u16,
        dont_fragment: false,
        time_to_live: TTL,
        protocol,
        source: source.octets(),
        destination: destination.octets(),
        ..Ipv4Header::default()
    };
    header.header_checksum = header.calc_header_checksum();
    frame[ETHERNET..ETHERNET + MIN_HEADER].copy_from_slice(&header.to_bytes());
}
