//! Removal of headers: a frame becomes a shorter borrow of the same bytes.
#![allow(unsafe_code)]

use super::{Burst, Frame, Frames};

impl Burst<'_, '_> {
    /// Cuts each frame to the range of offsets that `part` returns, and drops frames for which it returns `None`. The
    /// chain of a cut frame can no longer be kept, as no virtio header precedes the frame.
    ///
    /// # Panics
    /// If a part is empty or does not lie in its frame, or is to be cut of a frame that is not complete ([`Frame::offload`]).
    #[inline]
    pub fn trim(&mut self, mut part: impl FnMut(&Frames<'_>, &Frame<'_>) -> Option<(u32, u32)>) {
        let mut kept = 0;
        for index in 0..self.frames {
            let frames = self.frames();
            let Some((from, to)) = part(&frames, &frames.as_slice()[index]) else { continue };
            // SAFETY: entry `index` was written by `put`, as it is one of the burst.
            let mut frame = unsafe { self.storage.frames[index].assume_init() };
            assert!(from < to && to <= frame.len);
            if (from, to) != (0, frame.len) {
                assert!(frame.offload.is_none());
                frame.origin = frame.origin.cut();
                if frame.is_contiguous() {
                    frame.first = frame.first.split_at(to).0.split_at(from).1;
                } else {
                    self.trim_segments(&mut frame, from, to);
                }
                frame.len = to - from;
            }
            self.storage.frames[kept].write(frame);
            kept += 1;
        }
        self.frames = kept;
        self.bytes = self.frames().as_slice().iter().map(|frame| u64::from(frame.len)).sum();
    }

    /// Cuts a frame of several segments to the range of offsets from `skip` to `to`: leaves out the segments outside it, and
    /// cuts the first and the last that remain.
    fn trim_segments(&mut self, frame: &mut Frame<'static>, mut skip: u32, to: u32) {
        let mut left = to - skip;
        let mut at = usize::from(frame.more_start);
        while skip >= frame.first.len() {
            skip -= frame.first.len();
            // SAFETY: the segments of a frame were written by `push_segments`; `skip` is less than all of them together.
            frame.first = unsafe { self.storage.segments[at].assume_init() };
            at += 1;
        }
        frame.first = frame.first.split_at(skip).1.split_at(left).0;
        left -= frame.first.len();
        frame.more_start = at as u16;
        while left > 0 {
            // SAFETY: as above.
            let segment = unsafe { self.storage.segments[at].assume_init() }.split_at(left).0;
            self.storage.segments[at].write(segment);
            left -= segment.len();
            at += 1;
        }
        frame.more_len = at as u16 - frame.more_start;
    }
}

#[cfg(test)]
mod tests {
    use crate::frame::{BurstStorage, Origin, Segment};
    use proptest::prelude::*;

    // Under Miri a few frames: the next one is cut as the one before was.
    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..Default::default() })]

        #[test]
        fn a_trimmed_frame_has_the_requested_bytes(
            frames in prop::collection::vec((prop::collection::vec(1usize..50, 1..6), any::<[u16; 2]>(), any::<bool>()), 1..if cfg!(miri) { 6 } else { 20 }),
        ) {
            let bytes: Vec<u8> = (0..=255).collect();
            let mut storage = Box::<BurstStorage>::default();
            let mut burst = storage.start();
            let mut expected = Vec::new();
            let mut parts = Vec::new();
            for (lengths, cut, stays) in &frames {
                let mut at = 0;
                let segments = lengths.iter().map(|len| {
                    at += len;
                    Segment::from(&bytes[at - len..at])
                });
                prop_assert!(burst.push_segments(segments));
                let len: usize = lengths.iter().sum();
                let from = usize::from(cut[0]) % len;
                let to = from + 1 + usize::from(cut[1]) % (len - from);
                parts.push(stays.then_some((from as u32, to as u32)));
                if *stays {
                    expected.push(bytes[from..to].to_vec());
                }
            }
            let mut parts = parts.into_iter();
            burst.trim(|_, _| parts.next().flatten());
            prop_assert_eq!(burst.bytes() as usize, expected.iter().map(Vec::len).sum::<usize>());
            let left = burst.frames();
            prop_assert_eq!(left.len(), expected.len());
            for (frame, expected) in left.as_slice().iter().zip(&expected) {
                let mut copy = vec![0; frame.len() as usize + 1];
                prop_assert_eq!(left.copy_to(frame, &mut copy), expected.len());
                prop_assert_eq!(&copy[..expected.len()], &expected[..]);
                prop_assert!(left.segments(frame).all(|segment| !segment.is_empty()));
            }
        }
    }

    #[test]
    fn a_chain_whose_frame_was_cut_is_not_kept() {
        let bytes = [7; 64];
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        (0..2).for_each(|place| burst.push_from(Segment::from(&bytes[..]), Origin { place, id: 4 }));
        burst.set_queue(9);
        let mut cut = [(0, 64), (10, 64)].into_iter();
        burst.trim(|_, _| cut.next());
        let frames = burst.frames();
        let kept = [0, 1].map(|index| frames.keep(&frames.as_slice()[index], 9));
        assert_eq!(kept, [Some(4), None]);
    }
}
