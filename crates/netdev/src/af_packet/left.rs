//! Checksums that a sender on this host left to its hardware.

use packet::{Segment, unfinished};

/// An incomplete checksum: the relevant part of `struct virtio_net_hdr` (virtio 1.2 §5.1.6), which the kernel puts
/// before a frame with `PACKET_VNET_HDR`, in the byte order of this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unfinished {
    start: u16,
    offset: u16,
}

impl Unfinished {
    /// Length of the header, which lacks the number of buffers here.
    pub(super) const BYTES: usize = size_of::<[u16; 5]>();

    pub(super) fn parse(header: &[u8; Self::BYTES]) -> Unfinished {
        let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        Unfinished { start: word(6), offset: word(8) }
    }

    /// Completes the checksum. Leaves a frame alone whose field was truncated.
    pub(super) fn complete(self, frame: &mut [u8]) {
        let whole = std::iter::once(Segment::from(&*frame));
        if let Some(patch) = unfinished::as_asked(whole, self.start.into(), self.offset.into()) {
            patch.apply(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::checksum::Sum;

    #[test]
    fn completed_checksums_sum_up_to_all_ones() {
        for len in 10..80 {
            let mut frame: Vec<u8> = (0..len).map(|i| (i * 37) as u8).collect();
            let pseudo = u16::from_be_bytes([frame[8], frame[9]]);
            Unfinished { start: 4, offset: 4 }.complete(&mut frame);
            // The field held the pseudo-header's sum, which the receiver includes.
            let mut receiver = Sum::new();
            receiver.add(&frame[4..]);
            receiver.add_word(pseudo);
            assert_eq!(receiver.finish(), 0, "{len}");
        }
    }
}
