//! A frame as paflow reads it: by offset, each byte at most once.

use packet::{Frame, Frames, Segment};
use paflow::Octets;

/// Bytes of a frame across its segments.
pub(crate) struct Bytes<'f, 'b> {
    frames: &'f Frames<'b>,
    frame: &'f Frame<'b>,
}

impl<'f, 'b> Bytes<'f, 'b> {
    #[inline(always)]
    pub(crate) fn new(frames: &'f Frames<'b>, frame: &'f Frame<'b>) -> Self {
        Bytes { frames, frame }
    }

    #[cold]
    fn read_across<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        if at.checked_add(N)? > self.size() {
            return None;
        }
        let mut bytes = [0; N];
        let (mut skip, mut filled) = (at as u32, 0);
        for segment in self.frames.segments(self.frame) {
            let (before, rest) = segment.split_at(skip);
            skip -= before.len();
            filled += rest.copy_to(&mut bytes[filled..]);
        }
        // Callers must use `bytes`: without the fence the compiler could read the guest's memory a second time.
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::AcqRel);
        (filled == N).then_some(bytes)
    }
}

impl Octets for Bytes<'_, '_> {
    #[inline(always)]
    fn size(&self) -> usize {
        self.frame.len() as usize
    }

    #[inline(always)]
    fn read<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.frame.first().read_at(at).or_else(|| {
            // A contiguous frame has no bytes beyond its first segment.
            if self.frame.is_contiguous() { None } else { self.read_across(at) }
        })
    }
}

/// Bytes of one segment.
pub(crate) struct SegmentBytes<'b>(pub(crate) Segment<'b>);

impl Octets for SegmentBytes<'_> {
    #[inline(always)]
    fn size(&self) -> usize {
        self.0.len() as usize
    }

    #[inline(always)]
    fn read<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.read_at(at)
    }
}
