//! Checksums that a sender on this host left to its hardware.

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

    /// Parses the header.
    pub(super) fn parse(header: &[u8; Self::BYTES]) -> Unfinished {
        let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        Unfinished { start: word(6), offset: word(8) }
    }

    /// Sums up everything from `start` on and stores the checksum in its field, which holds the sum of the
    /// pseudo-header. Leaves a frame alone whose field was truncated.
    pub(super) fn complete(self, frame: &mut [u8]) {
        let Some(summed) = frame.get_mut(usize::from(self.start)..) else { return };
        let sum = ones_complement_sum(summed);
        let Some(field) = summed.get_mut(usize::from(self.offset)..).and_then(|f| f.first_chunk_mut()) else { return };
        // Zero would mean no checksum (UDP); both are the same number (RFC 768).
        *field = match !sum {
            0 => [0xff; 2],
            checksum => checksum.to_be_bytes(),
        };
    }
}

/// The sum of the internet checksum (RFC 1071), not complemented.
fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let (words, last) = bytes.as_chunks::<2>();
    let last = last.first().map_or(0, |&byte| u64::from(byte) << 8);
    let mut sum = words.iter().fold(last, |sum, &word| sum + u64::from(u16::from_be_bytes(word)));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_standard() {
        // RFC 1071 §3.
        assert_eq!(ones_complement_sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(ones_complement_sum(&[0xff; 99]), 0xff00);
        assert_eq!(ones_complement_sum(&[]), 0);
    }

    #[test]
    fn what_is_completed_sums_up_to_all_ones() {
        for len in 10..80 {
            let mut frame: Vec<u8> = (0..len).map(|i| (i * 37) as u8).collect();
            let pseudo = u16::from_be_bytes([frame[8], frame[9]]);
            Unfinished { start: 4, offset: 4 }.complete(&mut frame);
            // The field held the pseudo-header's sum, which the receiver includes.
            let receiver = u64::from(ones_complement_sum(&frame[4..])) + u64::from(pseudo);
            assert_eq!(receiver % 0xffff, 0, "{len}");
        }
    }

    #[test]
    fn fields_outside_the_frame_are_left_alone() {
        for (start, offset) in [(100, 0), (50, 50), (99, 0), (65535, 65535)] {
            let mut frame = [7; 100];
            Unfinished { start, offset }.complete(&mut frame);
            assert_eq!(frame, [7; 100]);
        }
    }
}
