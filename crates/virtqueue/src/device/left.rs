//! Work that a driver leaves to the device, as the header in front of its frame says.

use crate::layout::NET_HEADER;
use packet::offload::{Offload, Offloads, header};
use packet::{HEAD, Segment};

/// Returns the work that `header` leaves on a frame of `len` bytes. `None` if it leaves what it must not, or not of such a frame; `read` fills
/// a buffer with the first bytes of the frame, and returns their number.
#[inline]
pub(super) fn left_by(
    header: [u8; NET_HEADER as usize],
    allowed: Offloads,
    len: u32,
    read: impl FnOnce(&mut [u8]) -> usize,
) -> Option<Offload> {
    // The flags, and the type of segments.
    if header[..2] == [0, 0] {
        return Some(Offload::NONE);
    }
    let mut head = [0; HEAD];
    let filled = read(&mut head);
    header::read(*header.first_chunk()?, allowed, len, &head[..filled]).ok()
}

/// Copies as many bytes as fit into `out`; returns their number.
pub(super) fn copy<'a>(segments: impl Iterator<Item = Segment<'a>>, out: &mut [u8]) -> usize {
    segments.fold(0, |filled, segment| filled + segment.copy_to(&mut out[filled..]))
}
