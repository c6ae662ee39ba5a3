//! Frames that never change: those of a generator or of a replayed file.
#![allow(unsafe_code)]

use crate::frame::{MappedMemory, Segment};
use std::ops::Range;

/// Constant frames in one allocation, which other threads can read as long as it exists.
#[derive(Default)]
pub struct FrameBlock {
    bytes: Box<[u8]>,
    frames: Box<[FrameRange]>,
}

/// Range of a frame in the block.
#[derive(Clone, Copy)]
struct FrameRange {
    start: usize,
    len: u32,
}

impl FrameBlock {
    /// Returns the number of frames.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Reports whether there are no frames.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns the frame of this number.
    ///
    /// # Panics
    /// If there is none.
    #[inline(always)]
    pub fn frame(&self, number: usize) -> Segment<'_> {
        let FrameRange { start, len } = self.frames[number];
        // SAFETY: the frame was put there when the block was made, and nothing changes it.
        unsafe { Segment::new(self.bytes.as_ptr().add(start), len) }
    }
}

impl<B: AsRef<[u8]>> FromIterator<B> for FrameBlock {
    fn from_iter<I: IntoIterator<Item = B>>(frames: I) -> FrameBlock {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        for frame in frames {
            let frame = frame.as_ref();
            places.push(FrameRange { start: bytes.len(), len: frame.len() as u32 });
            bytes.extend_from_slice(frame);
        }
        FrameBlock { bytes: bytes.into(), frames: places.into() }
    }
}

// SAFETY: the range is that of `bytes`, which are freed when this is dropped, and not before: nothing here replaces them.
// They never change, so any thread may read them, and no reference but shared ones is made to them.
unsafe impl MappedMemory for FrameBlock {
    fn range_of(&self, start: *const u8) -> Option<Range<usize>> {
        let range = self.bytes.as_ptr_range();
        let range = range.start.addr()..range.end.addr();
        range.contains(&start.addr()).then_some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_is_found_in_the_range_of_all() {
        let block: FrameBlock = [vec![1; 60], vec![2; 1514], vec![3; 64]].into_iter().collect();
        assert!((block.len(), block.is_empty()) == (3, false));
        let range = block.range_of(block.frame(0).as_ptr()).unwrap();
        assert_eq!(range.len(), 60 + 1514 + 64);
        for (number, len) in [60, 1514, 64].into_iter().enumerate() {
            let frame = block.frame(number);
            assert_eq!((frame.len(), frame.read()), (len, Some([number as u8 + 1; 60])));
            assert_eq!(block.range_of(frame.as_ptr()), Some(range.clone()));
        }
        let last = block.frame(2);
        assert_eq!(block.range_of(last.as_ptr().wrapping_add(64)), None);
        assert_eq!(block.range_of(block.frame(0).as_ptr().wrapping_sub(1)), None);
    }
}
