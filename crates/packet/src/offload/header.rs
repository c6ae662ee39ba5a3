//! The description of a frame as a virtio header has it (virtio 1.2 §5.1.6), and the kernel's taps and packet sockets: 10 bytes,
//! little-endian as all that Millrace runs on.

use super::message::Found;
use super::{Cut, Message, Offload, Offloads, Refused, Work};
use crate::header_len::ETHERNET;

/// Length of the header in bytes.
pub const LEN: usize = 10;

/// Flags. A receiver ignores others (virtio 1.2 §5.1.6.2.2 and §5.1.6.4.2).
const NEEDS_CSUM: u8 = 1;
const RSC_INFO: u8 = 4;

/// Types of segments. The bit for ECN goes with both of TCP.
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// Offset of the checksum in a header of SCTP.
const SCTP_FIELD: u16 = 8;

/// Returns the offset of the checksum in the transport header.
pub(crate) const fn field(message: Message) -> u8 {
    match message {
        Message::Tcp4 | Message::Tcp6 => 16,
        Message::Udp => 6,
    }
}

/// Reads the header of a frame of `frame_len` bytes, whose first bytes are `head`: [`crate::HEAD`] of them, or all. It may ask for what
/// is `allowed`. What it says of the length of headers is only a hint, and not read.
///
/// # Errors
/// [`Refused`], if anything in it is wrong, or contradicts the frame.
pub fn read(header: [u8; LEN], allowed: Offloads, frame_len: u32, head: &[u8]) -> Result<Offload, Refused> {
    let [flags, gso, _, _, size_0, size_1, start_0, start_1, offset_0, offset_1] = header;
    let [size, start, offset] = [[size_0, size_1], [start_0, start_1], [offset_0, offset_1]].map(u16::from_le_bytes);
    if flags & RSC_INFO != 0 {
        return Err(Refused::Coalesced);
    }
    if flags & NEEDS_CSUM == 0 {
        return if gso == GSO_NONE { Ok(Offload::NONE) } else { Err(Refused::NoChecksum) };
    }
    let field_end = u32::from(start) + u32::from(offset) + 2;
    let (Ok(offset), true) = (u8::try_from(offset), usize::from(start) >= ETHERNET && field_end <= frame_len) else {
        return Err(Refused::Outside);
    };
    let offload = match gso {
        GSO_NONE if u16::from(offset) == SCTP_FIELD => return Err(Refused::Crc),
        GSO_NONE => Offload::checksum(start, offset),
        _ => segments(gso, size, start, offset, frame_len, head)?,
    };
    if allowed.has(offload.needs()) { Ok(offload) } else { Err(Refused::NotNegotiated) }
}

/// Returns the description of a frame that is to be cut: of its checksum alone, if it is no longer than one segment.
fn segments(gso: u8, size: u16, start: u16, offset: u8, frame_len: u32, head: &[u8]) -> Result<Offload, Refused> {
    let (ecn, asked) = (gso & GSO_ECN != 0, gso & !GSO_ECN);
    if !matches!(asked, GSO_TCPV4 | GSO_TCPV6 | GSO_UDP_L4) || ecn && asked == GSO_UDP_L4 {
        return Err(Refused::Type);
    }
    let found = Found::find(head, frame_len)?;
    let cut = found.cut(size, ecn)?;
    if kind(cut.message) != asked || u16::from(cut.start) != start || field(cut.message) != offset {
        return Err(Refused::Mismatch);
    }
    let offload = Offload::cut(cut).ok_or(Refused::Size)?;
    let headers = u32::from(cut.start) + u32::from(cut.header);
    if frame_len <= headers + u32::from(size) {
        return Ok(Offload::checksum(start, offset));
    }
    found.fills(frame_len)?;
    Ok(offload)
}

const fn kind(message: Message) -> u8 {
    match message {
        Message::Tcp4 => GSO_TCPV4,
        Message::Tcp6 => GSO_TCPV6,
        Message::Udp => GSO_UDP_L4,
    }
}

/// Returns the header that passes a description on.
pub fn write(offload: Offload) -> [u8; LEN] {
    let (flags, gso, header, size, start, offset) = match offload.work() {
        Work::Nothing => (0, GSO_NONE, 0, 0, 0, 0),
        Work::Checksum { start, offset } => (NEEDS_CSUM, GSO_NONE, 0, 0, start, offset),
        Work::Cut(cut) => {
            let Cut { message, size, start, header, ecn } = cut;
            let gso = kind(message) | if ecn { GSO_ECN } else { 0 };
            (NEEDS_CSUM, gso, u16::from(start) + u16::from(header), size, start.into(), field(message))
        }
    };
    let mut bytes = [flags, gso, 0, 0, 0, 0, 0, 0, offset, 0];
    for (at, word) in [(2, header), (4, size), (6, start)] {
        bytes[at..at + 2].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests;
