//! Work that a sender on this host left to its hardware.

use packet::offload::{Offload, Offloads, header};
use packet::{HEAD, Segment, unfinished};

/// Reads the header of a frame, which the kernel puts before it with `PACKET_VNET_HDR`. Finishes the checksum if the rest may not be
/// left, or has no description: as of a message in a tunnel, which stays whole.
pub(super) fn read(header: [u8; header::LEN], allowed: Offloads, frame: &mut [u8]) -> Offload {
    if !allowed.is_none()
        && let Ok(left) = header::read(header, allowed, frame.len() as u32, &frame[..frame.len().min(HEAD)])
    {
        return left;
    }
    finish(header, frame);
    Offload::NONE
}

/// Finishes the checksum. Leaves a frame alone whose field was truncated.
fn finish(header: [u8; header::LEN], frame: &mut [u8]) {
    let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let whole = std::iter::once(Segment::from(&*frame));
    if let Some(patch) = unfinished::as_asked(whole, word(6).into(), word(8).into()) {
        patch.apply(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::checksum::Sum;

    /// Asks for the checksum from 14 on, whose field is there.
    const HEADER: [u8; header::LEN] = [1, 0, 0, 0, 0, 0, 14, 0, 0, 0];

    #[test]
    fn completed_checksums_sum_up_to_all_ones() {
        for len in 20..90 {
            let mut frame: Vec<u8> = (0..len).map(|i| (i * 37) as u8).collect();
            let pseudo = u16::from_be_bytes([frame[14], frame[15]]);
            assert_eq!(read(HEADER, Offloads::NONE, &mut frame), Offload::NONE);
            // The field held the pseudo-header's sum, which the receiver includes.
            let mut receiver = Sum::new();
            receiver.add(&frame[14..]);
            receiver.add_word(pseudo);
            assert_eq!(receiver.finish(), 0, "{len}");
        }
    }

    #[test]
    fn what_may_be_left_stays() {
        let mut frame = vec![7; 60];
        assert_eq!(read(HEADER, Offloads::CHECKSUM, &mut frame), Offload::checksum(14, 0));
        assert_eq!(frame, vec![7; 60]);
        // The checksum of SCTP is none that others finish, and this is no message that others could cut.
        let mut uncut = HEADER;
        (uncut[1], uncut[4]) = (1, 100);
        for header in [header::write(Offload::checksum(14, 8)), uncut] {
            let mut finished = frame.clone();
            assert_eq!(read(header, Offloads::ALL, &mut finished), Offload::NONE);
            assert_ne!(finished, frame);
        }
    }
}
