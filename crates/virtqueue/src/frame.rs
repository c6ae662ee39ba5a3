//! Frames: bytes borrowed from one queue on their way to another.

mod trim;

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Maximum number of frames in a burst.
pub const MAX_BURST: usize = 32;

/// Maximum number of further segments in a burst. Any accepted chain fits into an empty burst.
pub const MAX_SEGMENTS: usize = crate::MAX_CHAIN as usize;

/// Shortest accepted frame in bytes: an Ethernet header.
pub const MIN_FRAME: u32 = 14;

/// Longest accepted frame in bytes.
pub const MAX_FRAME: u32 = 65_535;

/// A borrowed run of bytes, perhaps a guest's: others may write to it while we read.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    ptr: *const u8,
    len: u32,
    lent: PhantomData<&'a [u8]>,
}

impl<'a> Segment<'a> {
    /// # Safety
    /// `[ptr, ptr + len)` must stay mapped and readable for `'a`. Others may write to it.
    #[inline(always)]
    pub unsafe fn new(ptr: *const u8, len: u32) -> Self {
        Segment { ptr, len, lent: PhantomData }
    }

    /// Returns the address of the first byte.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr
    }

    /// Returns the length in bytes.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Reports whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Prefetches the first cache line for reading.
    #[inline(always)]
    pub fn prefetch(&self) {
        crate::copy::prefetch(self.ptr);
    }

    /// Splits it into the first `at` bytes and the rest; `at` is limited to the length.
    pub fn split_at(self, at: u32) -> (Self, Self) {
        let at = at.min(self.len);
        // SAFETY: both parts lie in what this segment borrows.
        unsafe { (Segment::new(self.ptr, at), Segment::new(self.ptr.add(at as usize), self.len - at)) }
    }

    /// Copies as many bytes into `out` as fit; returns their number.
    pub fn copy_to(&self, out: &mut [u8]) -> usize {
        let len = out.len().min(self.len as usize);
        // SAFETY: `len` bytes are readable here and writable there; `out` is borrowed exclusively, so it is not part of
        // the lent bytes.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr, out.as_mut_ptr(), len) };
        len
    }

    /// Returns a copy of the first `N` bytes, or `None` if there are fewer.
    #[inline(always)]
    pub fn read<const N: usize>(&self) -> Option<[u8; N]> {
        if (self.len as usize) < N {
            return None;
        }
        let mut bytes = [0; N];
        // SAFETY: N bytes are readable; a torn value is as valid as any other that a guest may write.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr, bytes.as_mut_ptr(), N) };
        // Keeps the compiler from replacing uses of `bytes` by a second read of guest memory.
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::AcqRel);
        Some(bytes)
    }
}

impl<'a> From<&'a [u8]> for Segment<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        debug_assert!(bytes.len() <= u32::MAX as usize);
        Segment { ptr: bytes.as_ptr(), len: bytes.len() as u32, lent: PhantomData }
    }
}

/// One Ethernet frame: a first segment here, further ones (rare) in its burst.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub(crate) first: Segment<'a>,
    pub(crate) len: u32,
    more_start: u16,
    more_len: u16,
    chain: Chain,
}

/// The chain of a frame, if it can be kept: its place in the burst, and its id.
#[derive(Clone, Copy, Debug)]
struct Chain {
    place: u8,
    id: u16,
}

impl Chain {
    const NONE: Chain = Chain { place: u8::MAX, id: 0 };
}

impl<'a> Frame<'a> {
    /// Returns the length of all segments together, in bytes.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)] // A frame is never empty.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns the first segment; most frames have no other.
    #[inline(always)]
    pub fn first(&self) -> Segment<'a> {
        self.first
    }

    /// Reports whether the frame lies in one run of bytes.
    #[inline(always)]
    pub fn is_contiguous(&self) -> bool {
        self.more_len == 0
    }
}

/// Storage for one burst, which a worker reuses.
pub struct BurstStorage {
    frames: [MaybeUninit<Frame<'static>>; MAX_BURST],
    segments: [MaybeUninit<Segment<'static>>; MAX_SEGMENTS],
}

// SAFETY: entries stored for an earlier burst are never read again; the pointers in them are dead.
unsafe impl Send for BurstStorage {}

impl Default for BurstStorage {
    fn default() -> Self {
        BurstStorage { frames: [MaybeUninit::uninit(); MAX_BURST], segments: [MaybeUninit::uninit(); MAX_SEGMENTS] }
    }
}

impl BurstStorage {
    /// Starts an empty burst of frames that live for `'q`, the borrow of the queue that they come from.
    #[inline(always)]
    pub fn start<'s, 'q>(&'s mut self) -> Burst<'s, 'q> {
        Burst {
            storage: self,
            most: MAX_BURST,
            frames: 0,
            segments: 0,
            bytes: 0,
            lender: 0,
            kept: Cell::new(0),
            lent: PhantomData,
        }
    }
}

/// Frames taken from one queue, until they are returned to it.
pub struct Burst<'s, 'q> {
    storage: &'s mut BurstStorage,
    /// Maximum number of frames, at most [`MAX_BURST`].
    most: usize,
    frames: usize,
    segments: usize,
    bytes: u64,
    /// The queue of the frames, if their chains can be kept, and a bit for each kept chain.
    lender: u64,
    kept: Cell<u32>,
    lent: PhantomData<&'q [u8]>,
}

impl<'q> Burst<'_, 'q> {
    /// Returns the number of frames.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.frames
    }

    /// Reports whether there are no frames.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// Returns how many more frames fit.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.most - self.frames
    }

    /// Limits the burst to `most` further frames, within [`MAX_BURST`].
    #[inline(always)]
    pub fn limit(&mut self, most: usize) {
        self.most = (self.frames + most).min(MAX_BURST);
    }

    /// Returns the length of all frames together, in bytes.
    #[inline(always)]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a frame of one segment.
    ///
    /// # Panics
    /// If there is no [`Burst::room`].
    #[inline(always)]
    pub fn push(&mut self, segment: Segment<'q>) {
        let len = segment.len;
        self.put(Frame { first: segment, len, more_start: 0, more_len: 0, chain: Chain::NONE });
    }

    /// Adds a frame of one segment whose chain may be kept: [`crate::NET_HEADER`] bytes of the same buffer precede it.
    /// `place` counts the chains of the burst.
    #[inline(always)]
    pub(crate) fn push_chain(&mut self, segment: Segment<'q>, place: usize, id: u16) {
        let len = segment.len;
        let chain = Chain { place: place as u8, id };
        self.put(Frame { first: segment, len, more_start: 0, more_len: 0, chain });
    }

    /// Sets the queue that the chains belong to.
    #[inline(always)]
    pub(crate) fn set_lender(&mut self, lender: u64) {
        self.lender = lender;
    }

    /// Returns the kept chains, as a bit for each place in the burst.
    #[inline(always)]
    pub fn kept(&self) -> u32 {
        self.kept.get()
    }

    /// Adds a frame of several segments, at least one. Returns false, and adds nothing, if the segments do not fit or
    /// their total exceeds [`MAX_FRAME`].
    ///
    /// # Panics
    /// If there is no [`Burst::room`].
    #[must_use]
    pub fn push_segments(&mut self, segments: impl IntoIterator<Item = Segment<'q>>) -> bool {
        let mut segments = segments.into_iter();
        let Some(first) = segments.next() else { return false };
        let start = self.segments;
        let mut at = start;
        let mut len = u64::from(first.len);
        for segment in segments {
            let Some(slot) = self.storage.segments.get_mut(at) else { return false };
            slot.write(segment.forget());
            at += 1;
            len += u64::from(segment.len);
        }
        if len > u64::from(MAX_FRAME) {
            return false;
        }
        self.segments = at;
        let (more_start, more_len) = (start as u16, (at - start) as u16);
        self.put(Frame { first, len: len as u32, more_start, more_len, chain: Chain::NONE });
        true
    }

    /// Adds a frame of another burst unchanged, so that its chain can still be kept: the caller must pass the chains
    /// kept of this burst on to the other one ([`Frames::keep_places`]). Returns false, and adds nothing, if the
    /// segments do not fit.
    ///
    /// # Panics
    /// If there is no [`Burst::room`].
    #[must_use]
    #[inline(always)]
    pub fn push_frame(&mut self, frames: &Frames<'q>, frame: &Frame<'q>) -> bool {
        if !frame.is_contiguous() {
            return self.push_segments(frames.segments(frame));
        }
        self.lender = frames.lender;
        // The segment indices refer to the other burst, which may hold more segments.
        self.put(Frame { more_start: 0, ..*frame });
        true
    }

    #[inline(always)]
    fn put(&mut self, frame: Frame<'q>) {
        self.storage.frames[self.frames].write(frame.forget());
        self.frames += 1;
        self.bytes += u64::from(frame.len);
    }

    /// Keeps only the frames for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(Frames<'_>, &Frame<'_>) -> bool) {
        let mut kept = 0;
        for i in 0..self.frames {
            let frames = self.frames();
            let frame = frames.as_slice()[i];
            if keep(frames, &frame) {
                self.storage.frames[kept] = self.storage.frames[i];
                kept += 1;
            } else {
                self.bytes -= u64::from(frame.len);
            }
        }
        self.frames = kept;
    }

    /// Returns all frames of the burst, borrowed until they are returned to their queue.
    #[inline(always)]
    pub fn frames(&self) -> Frames<'_> {
        // SAFETY: the first `frames` and `segments` entries were written by `put` and `push_segments`, with lifetimes
        // that contain the borrow of `self`.
        unsafe {
            Frames {
                frames: std::slice::from_raw_parts(self.storage.frames.as_ptr().cast(), self.frames),
                segments: std::slice::from_raw_parts(self.storage.segments.as_ptr().cast(), self.segments),
                lender: self.lender,
                kept: &self.kept,
            }
        }
    }
}

impl Segment<'_> {
    /// Returns the same bytes without their lifetime: only to be stored in a burst, which restores it.
    #[inline(always)]
    fn forget(&self) -> Segment<'static> {
        Segment { ptr: self.ptr, len: self.len, lent: PhantomData }
    }
}

impl Frame<'_> {
    /// Drops the lifetime, as [`Segment::forget`] does.
    #[inline(always)]
    fn forget(&self) -> Frame<'static> {
        Frame {
            first: self.first.forget(),
            len: self.len,
            more_start: self.more_start,
            more_len: self.more_len,
            chain: self.chain,
        }
    }
}

/// An Ethernet header, read once; two headers compare in two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// Bytes 0 to 7, and bytes 6 to 13: the shortest frame has no more.
    start: u64,
    end: u64,
}

impl Ethernet {
    /// Returns the destination address, its first byte lowest.
    #[inline(always)]
    pub fn destination(self) -> u64 {
        u64::from_le(self.start) & 0xffff_ffff_ffff
    }

    /// Returns the source address, its first byte lowest.
    #[inline(always)]
    pub fn source(self) -> u64 {
        u64::from_le(self.end) & 0xffff_ffff_ffff
    }
}

/// Some frames of a burst, in order, on their way to a queue.
#[derive(Clone, Copy)]
pub struct Frames<'b> {
    frames: &'b [Frame<'b>],
    segments: &'b [Segment<'b>],
    lender: u64,
    kept: &'b Cell<u32>,
}

impl<'b> Frames<'b> {
    /// Returns the frames.
    #[inline(always)]
    pub fn as_slice(&self) -> &'b [Frame<'b>] {
        self.frames
    }

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

    /// Returns all segments of `frame`, which must be one of these frames.
    #[inline(always)]
    pub fn segments(&self, frame: &Frame<'b>) -> impl Iterator<Item = Segment<'b>> + Clone + use<'b> {
        let start = frame.more_start as usize;
        let more = &self.segments[start..start + frame.more_len as usize];
        std::iter::once(frame.first).chain(more.iter().copied())
    }

    /// Keeps the chain of `frame`: its queue does not return it to the guest until it is released by the returned id.
    /// Returns `None` if the frame has no chain that can be kept, or its queue is not `lender`. [`crate::NET_HEADER`]
    /// bytes before the frame belong to the same buffer.
    #[inline(always)]
    pub fn keep(&self, frame: &Frame<'b>, lender: u64) -> Option<u16> {
        if self.lender != lender || lender == 0 || frame.chain.place == Chain::NONE.place {
            return None;
        }
        self.kept.set(self.kept.get() | 1 << frame.chain.place);
        Some(frame.chain.id)
    }

    /// Keeps the chains at these places, as [`Frames::keep`] does one by one.
    #[inline(always)]
    pub fn keep_places(&self, places: u32) {
        self.kept.set(self.kept.get() | places);
    }

    /// Returns other frames with the same segments: a selection in an order of the caller's choice.
    #[inline(always)]
    pub fn select(&self, frames: &'b [Frame<'b>]) -> Frames<'b> {
        Frames { frames, ..*self }
    }

    /// Returns the Ethernet header of `frame`, which every frame has.
    #[inline(always)]
    pub fn ethernet(&self, frame: &Frame<'b>) -> Ethernet {
        if frame.first.len >= MIN_FRAME {
            // SAFETY: bytes 0 to 13 are readable. The fence keeps the compiler from reading them again later.
            let words = unsafe {
                let start = frame.first.ptr.cast::<u64>();
                (start.read_unaligned(), start.byte_add(6).read_unaligned())
            };
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::AcqRel);
            Ethernet { start: words.0, end: words.1 }
        } else {
            self.ethernet_across(frame)
        }
    }

    #[cold]
    fn ethernet_across(&self, frame: &Frame<'b>) -> Ethernet {
        let mut bytes = [0; MIN_FRAME as usize];
        self.copy_to(frame, &mut bytes);
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        Ethernet { start: word(0), end: word(6) }
    }

    /// Returns the first `N` bytes of `frame` across its segments, or `None` if it is shorter.
    #[inline(always)]
    pub fn peek<const N: usize>(&self, frame: &Frame<'b>) -> Option<[u8; N]> {
        frame.first.read().or_else(|| self.peek_across(frame))
    }

    #[cold]
    fn peek_across<const N: usize>(&self, frame: &Frame<'b>) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        (self.copy_to(frame, &mut bytes) == N).then_some(bytes)
    }

    /// Copies as much of `frame` as fits into `out`; returns the number of bytes.
    pub fn copy_to(&self, frame: &Frame<'b>, out: &mut [u8]) -> usize {
        self.segments(frame).fold(0, |filled, segment| filled + segment.copy_to(&mut out[filled..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_keeps_its_frames_in_order() {
        let mut storage = Box::<BurstStorage>::default();
        let bytes: Vec<u8> = (0..100).collect();
        let mut burst = storage.start();
        burst.push(Segment::from(&bytes[..20]));
        let (a, b) = Segment::from(&bytes[20..60]).split_at(3);
        assert!(burst.push_segments([a, b, Segment::from(&bytes[60..61])]));
        assert_eq!((burst.len(), burst.bytes(), burst.room()), (2, 61, MAX_BURST - 2));
        burst.limit(3);
        assert_eq!(burst.room(), 3);
        burst.limit(MAX_BURST);
        assert_eq!(burst.room(), MAX_BURST - 2);
        let frames = burst.frames();
        let [one, two] = frames.as_slice() else { panic!() };
        assert!(one.is_contiguous() && !two.is_contiguous());
        assert_eq!(frames.ethernet(one).destination(), 0x05_04_03_02_01_00);
        assert_eq!(frames.ethernet(two).destination(), 0x19_18_17_16_15_14);
        assert_eq!(frames.ethernet(two).source(), 0x1f_1e_1d_1c_1b_1a);
        assert_eq!(frames.peek::<4>(one), Some([0, 1, 2, 3]));
        assert_eq!(frames.peek::<5>(two), Some([20, 21, 22, 23, 24]));
        assert_eq!(frames.peek::<42>(two), None);
        assert_eq!(frames.segments(two).map(|s| s.len()).collect::<Vec<_>>(), [3, 37, 1]);
    }

    #[test]
    fn what_grows_beyond_the_longest_frame_is_not_added() {
        let mut storage = Box::<BurstStorage>::default();
        let bytes = vec![0; MAX_FRAME as usize];
        let mut burst = storage.start();
        assert!(burst.push_segments([Segment::from(&bytes[..])]));
        assert!(!burst.push_segments([Segment::from(&bytes[..]), Segment::from(&bytes[..4])]));
        assert_eq!(burst.len(), 1);
    }

    #[test]
    fn a_frame_can_be_kept_by_way_of_another_burst() {
        let (mut storage, mut other) = (Box::<BurstStorage>::default(), Box::<BurstStorage>::default());
        let bytes = [7; 64];
        let mut burst = storage.start();
        (0..3).for_each(|place| burst.push_chain(Segment::from(&bytes[..]), place, 40 + place as u16));
        burst.set_lender(9);
        let frames = burst.frames();
        let mut moved = other.start();
        moved.push(Segment::from(&bytes[..20]));
        assert!(moved.push_frame(&frames, &frames.as_slice()[2]));
        let later = moved.frames();
        assert_eq!((later.keep(&later.as_slice()[0], 9), later.keep(&later.as_slice()[1], 9)), (None, Some(42)));
        frames.keep_places(moved.kept());
        assert_eq!((moved.kept(), burst.kept()), (0b100, 0b100));
    }

    #[test]
    fn a_frame_of_one_segment_forgets_those_of_others() {
        let (mut storage, mut other) = (Box::<BurstStorage>::default(), Box::<BurstStorage>::default());
        let bytes = [7; 64];
        let (a, b) = Segment::from(&bytes[..]).split_at(20);
        let mut burst = storage.start();
        assert!(burst.push_segments([a, b]) && burst.push_segments([a]));
        let frames = burst.frames();
        let mut copied = other.start();
        assert!(copied.push_frame(&frames, &frames.as_slice()[1]));
        let copied = copied.frames();
        assert_eq!(copied.segments(&copied.as_slice()[0]).count(), 1);
    }

    #[test]
    fn storage_is_used_again() {
        let mut storage = Box::<BurstStorage>::default();
        for round in 0..3u8 {
            let bytes = [round; 64];
            let mut burst = storage.start();
            (0..MAX_BURST).for_each(|_| burst.push(Segment::from(&bytes[..])));
            assert_eq!(burst.room(), 0);
            assert!(burst.frames().as_slice().iter().all(|f| f.first().read::<1>() == Some([round])));
        }
    }
}
