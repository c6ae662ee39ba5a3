//! Checksums that a peer left unfinished, as the header in front of its frame says (virtio 1.2 §5.1.6.4.1). A peer may do so only
//! if that was negotiated; some do so anyway.

use crate::NET_HEADER;
use packet::Segment;
use packet::unfinished::{self, Patch};

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM` and `VIRTIO_NET_HDR_F_DATA_VALID`.
const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;

/// Returns the checksum of a frame that the header in front of it leaves to its receiver.
#[inline(always)]
pub fn by_header<'a>(
    header: [u8; NET_HEADER as usize],
    frame: impl Iterator<Item = Segment<'a>> + Clone,
) -> Option<Patch> {
    if header[0] & (NEEDS_CSUM | DATA_VALID) == 0 { None } else { by_flags(header, frame) }
}

#[cold]
fn by_flags<'a>(header: [u8; NET_HEADER as usize], frame: impl Iterator<Item = Segment<'a>> + Clone) -> Option<Patch> {
    let word = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
    // The fields csum_start and csum_offset.
    if header[0] & NEEDS_CSUM != 0 { unfinished::as_asked(frame, word(6), word(8)) } else { unfinished::renew(frame) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::checksum;

    /// A UDP datagram with an unfinished checksum: from 10.0.0.1 to 10.0.0.2, ports 1 and 2, "data".
    const FRAME: [u8; 46] = [
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0,
        0, 2, 0, 1, 0, 2, 0, 12, 0x14, 0x20, b'd', b'a', b't', b'a',
    ];

    fn header(flags: u8, start: u16, offset: u16) -> [u8; 12] {
        let mut header = [0; 12];
        header[0] = flags;
        header[6..8].copy_from_slice(&start.to_le_bytes());
        header[8..10].copy_from_slice(&offset.to_le_bytes());
        header
    }

    #[test]
    fn what_a_header_leaves_is_done() {
        let frame = || std::iter::once(Segment::from(&FRAME[..]));
        let asked = by_header(header(NEEDS_CSUM, 34, 6), frame()).unwrap();
        // Whatever the field holds, it is computed anew.
        let valid = by_header(header(DATA_VALID, 0, 0), frame()).unwrap();
        assert_eq!(asked, valid);
        let mut finished = FRAME;
        asked.apply(&mut finished);
        let pseudo = [10, 0, 0, 1, 10, 0, 0, 2, 0, 17, 0, 12];
        assert_eq!(checksum::of(&[&pseudo, &finished[34..]].concat()), 0);
        assert_eq!(by_header(header(DATA_VALID, 0, 0), std::iter::once(Segment::from(&finished[..]))), None);
        assert_eq!(by_header(header(0, 34, 6), frame()), None, "nothing was asked for");
        assert_eq!(by_header(header(NEEDS_CSUM, 34, 60_000), frame()), None, "the field is no part of the frame");
    }
}
