//! Frames that leave the worker of their queue: read by another thread, and beyond the end of their burst.
#![allow(unsafe_code)]

use super::{Frame, Frames, MAX_BURST, Segment};
use crate::offload::Offloads;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::sync::Arc;

/// Memory that stays mapped and readable as long as this exists.
///
/// # Safety
/// Each range that [`MappedMemory::range_of`] returned must stay mapped there, and readable by any thread, until this
/// is dropped. No reference that excludes readers may be made into bytes that are leased; others may write to them by pointers.
pub unsafe trait MappedMemory: Send + Sync {
    /// Returns a range of addresses of this memory that contains `start`, if `start` lies in this memory.
    fn range_of(&self, start: *const u8) -> Option<Range<usize>>;
}

/// Frames that may leave the worker of their queue: they lie in memory that stays mapped as long as this exists, or in bytes of
/// their own.
///
/// The caller holds the buffers of these frames, and so decides whether anybody may still write to that memory.
pub struct LeasedFrames {
    memories: Arc<[Arc<dyn MappedMemory>]>,
    /// The range of the last segment, in one of `memories`: the next one almost always lies there, too.
    recent: Recent,
    frames: Vec<Frame<'static>>,
    /// Further segments of all frames. A frame counts from the first one of its group.
    segments: Vec<Segment<'static>>,
    groups: Vec<Group>,
    bytes: u64,
    own: OwnBytes,
    /// What a receiver of all these frames must be able to do.
    offloads: Offloads,
    /// Chains that outputs wanted to keep, which these frames have not.
    kept: Cell<u32>,
}

// SAFETY: the pointers of the frames and segments are to `memories`, which any thread may read, and to `own`, which moves along
// and changes only by `&mut self`. All else is plain data.
unsafe impl Send for LeasedFrames {}

/// A range of addresses; empty at first.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    start: usize,
    len: usize,
}

impl Recent {
    #[inline(always)]
    fn contains(self, segment: Segment<'_>) -> bool {
        let offset = segment.as_ptr().addr().wrapping_sub(self.start);
        offset < self.len && segment.len() as usize <= self.len - offset
    }
}

/// The ends of a group in the frames and in the segments.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    frames: usize,
    segments: usize,
}

impl LeasedFrames {
    /// Creates an empty one for frames that lie in `memories`; others are copied.
    pub fn new(memories: Arc<[Arc<dyn MappedMemory>]>) -> LeasedFrames {
        LeasedFrames {
            memories,
            recent: Recent::default(),
            frames: Vec::with_capacity(MAX_BURST),
            segments: Vec::new(),
            groups: Vec::with_capacity(1),
            bytes: 0,
            own: OwnBytes::default(),
            offloads: Offloads::NONE,
            kept: Cell::new(0),
        }
    }

    /// Adds frames as one group, in order, or as several groups if they are more than [`MAX_BURST`]. Their marks
    /// ([`super::Origin`]) stay; nobody can keep their chains any more. Allocates only if there were never as many before.
    #[inline]
    pub fn add(&mut self, frames: Frames<'_>) {
        self.offloads |= frames.offloads;
        for group in frames.as_slice().chunks(MAX_BURST) {
            let recent = self.recent;
            if group.iter().all(|frame| frame.is_contiguous() && recent.contains(frame.first)) {
                self.add_usual(group);
            } else {
                self.add_any(frames.select(group));
            }
        }
    }

    /// Adds a group of frames of one segment each, which all lie where the last one lay.
    #[inline]
    fn add_usual(&mut self, group: &[Frame<'_>]) {
        self.bytes += group.iter().map(|frame| u64::from(frame.len)).sum::<u64>();
        // `groups` restores the lifetime: these frames are lent no longer than `memories` are here.
        let lease = |frame: &Frame<'_>| Frame { more_start: 0, origin: frame.origin.cut(), ..frame.forget() };
        self.frames.extend(group.iter().map(lease));
        self.groups.push(Group { frames: self.frames.len(), segments: self.segments.len() });
    }

    #[inline(never)]
    fn add_any(&mut self, group: Frames<'_>) {
        let LeasedFrames { memories, recent, frames, segments, own, .. } = self;
        let first_segment = segments.len();
        let mut bytes = 0;
        frames.extend(group.as_slice().iter().map(|frame| {
            bytes += u64::from(frame.len);
            let more_start = segments.len() - first_segment;
            if !frame.is_contiguous() {
                let more = group.segments(frame).skip(1);
                segments.extend(more.map(|segment| lease(segment, recent, memories, own)));
            }
            Frame {
                first: lease(frame.first, recent, memories, own),
                len: frame.len,
                // A burst has at most MAX_SEGMENTS further segments, and a frame no more than its burst: a group of frames has
                // at most MAX_BURST times as many, even if one is in it repeatedly.
                more_start: more_start as u16,
                more_len: frame.more_len,
                origin: frame.origin.cut(),
                offload: frame.offload,
            }
        }));
        self.bytes += bytes;
        self.groups.push(Group { frames: self.frames.len(), segments: self.segments.len() });
    }

    /// Returns the groups in the order in which they were added, each of at most [`MAX_BURST`] frames.
    #[inline]
    pub fn groups(&self) -> impl Iterator<Item = Frames<'_>> {
        let mut from = Group::default();
        self.groups.iter().map(move |&to| {
            let group = Frames {
                frames: &self.frames[from.frames..to.frames],
                segments: &self.segments[from.segments..to.segments],
                queue: 0,
                kept: &self.kept,
                offer: None,
                may_exchange: false,
                offloads: self.offloads,
            };
            from = to;
            group
        })
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

    /// Returns the length of all frames together, in bytes.
    #[inline(always)]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Removes all frames; their room stays for others.
    #[inline]
    pub fn clear(&mut self) {
        self.frames.clear();
        self.segments.clear();
        self.groups.clear();
        self.bytes = 0;
        self.offloads = Offloads::NONE;
        self.own.clear();
    }
}

/// Returns the same bytes, which stay: where they lie, if that is in one of `memories`, or a copy in `own`.
#[inline(always)]
fn lease(
    segment: Segment<'_>,
    recent: &mut Recent,
    memories: &[Arc<dyn MappedMemory>],
    own: &mut OwnBytes,
) -> Segment<'static> {
    // `LeasedFrames` restores the lifetime: it lends its frames no longer than it has `memories` and `own`.
    if recent.contains(segment) { segment.forget() } else { lease_elsewhere(segment, recent, memories, own) }
}

#[cold]
fn lease_elsewhere(
    segment: Segment<'_>,
    recent: &mut Recent,
    memories: &[Arc<dyn MappedMemory>],
    own: &mut OwnBytes,
) -> Segment<'static> {
    let found = memories.iter().find_map(|memory| {
        let range = memory.range_of(segment.as_ptr())?;
        let found = Recent { start: range.start, len: range.end.saturating_sub(range.start) };
        found.contains(segment).then_some(found)
    });
    match found {
        Some(found) => {
            *recent = found;
            segment.forget()
        }
        None => own.copy(segment),
    }
}

/// Copied segments, one after the other, in chunks that never move.
#[derive(Default)]
struct OwnBytes {
    chunks: Vec<Box<UnsafeCell<[u8]>>>,
    /// The chunk that the next segment goes to, and how much of it is in use.
    chunk: usize,
    used: usize,
}

/// Length of a chunk, unless a segment is longer: a burst of usual frames.
const CHUNK: usize = 64 << 10;

impl OwnBytes {
    /// Copies a segment; the copy stays until [`OwnBytes::clear`].
    fn copy(&mut self, segment: Segment<'_>) -> Segment<'static> {
        let len = segment.len() as usize;
        while self.chunks.get(self.chunk).is_some_and(|chunk| chunk.get().len() - self.used < len) {
            self.chunk += 1;
            self.used = 0;
        }
        if self.chunk == self.chunks.len() {
            let chunk: *mut [u8] = Box::into_raw(vec![0; len.max(CHUNK)].into_boxed_slice());
            // SAFETY: the box is ours, and a cell of bytes has the layout of the bytes.
            self.chunks.push(unsafe { Box::from_raw(chunk as *mut UnsafeCell<[u8]>) });
        }
        // By a pointer, as earlier segments lie in the same chunk.
        // SAFETY: the loop left at a chunk with `len` bytes after `used`, or at a new one of which none are used.
        let start = unsafe { self.chunks[self.chunk].get().cast::<u8>().add(self.used) };
        self.used += len;
        // SAFETY: these are `len` bytes of the chunk, and part of no segment, as `used` was before them and only grows until all
        // segments are gone. Nobody else has a reference to the chunk.
        segment.copy_to(unsafe { std::slice::from_raw_parts_mut(start, len) });
        // SAFETY: the bytes are `len` of a chunk, which is neither freed nor moved as long as this exists.
        unsafe { Segment::new(start, segment.len()) }
    }

    /// Frees all bytes for others. Nobody may read a segment any more.
    #[inline(always)]
    fn clear(&mut self) {
        self.chunk = 0;
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Burst, BurstStorage, Origin};
    use crate::frame_block::FrameBlock;
    use proptest::prelude::*;

    fn memories(blocks: &[&Arc<FrameBlock>]) -> Arc<[Arc<dyn MappedMemory>]> {
        blocks.iter().map(|&block| block.clone() as Arc<dyn MappedMemory>).collect()
    }

    fn content(frames: &LeasedFrames) -> Vec<Vec<Vec<u8>>> {
        let copy = |group: &Frames<'_>, frame: &Frame<'_>| {
            let mut bytes = vec![0; frame.len() as usize];
            assert_eq!(group.copy_to(frame, &mut bytes), bytes.len());
            bytes
        };
        frames.groups().map(|group| group.as_slice().iter().map(|frame| copy(&group, frame)).collect()).collect()
    }

    #[test]
    fn frames_stay_where_they_lie_in_known_memory_and_are_copied_otherwise() {
        let block: Arc<FrameBlock> = [[1; 60], [2; 60], [3; 60]].iter().collect::<FrameBlock>().into();
        let mut leased = LeasedFrames::new(memories(&[&block]));
        let mut storage = Box::<BurstStorage>::default();
        {
            let rewritten = [9; 14];
            let mut burst = storage.start();
            burst.push(block.frame(1));
            assert!(burst.push_segments([Segment::from(&rewritten[..]), block.frame(2).split_at(14).1]));
            leased.add(burst.frames());
        }
        let group = leased.groups().next().unwrap();
        let [one, two] = group.as_slice() else { panic!() };
        assert_eq!(one.first().as_ptr(), block.frame(1).as_ptr());
        let [head, rest] = [0, 1].map(|at| group.segments(two).nth(at).unwrap());
        assert_eq!(head.read(), Some([9; 14]));
        assert_eq!(rest.as_ptr(), block.frame(2).split_at(14).1.as_ptr());
        assert_eq!((leased.len(), leased.bytes()), (2, 120));
    }

    #[test]
    fn marks_stay_and_no_chain_can_be_kept() {
        let block: Arc<FrameBlock> = [[1; 60]].iter().collect::<FrameBlock>().into();
        let mut leased = LeasedFrames::new(memories(&[&block]));
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        for origin in [Origin::LENT, Origin::PART, Origin { place: 2, id: 7 }, Origin::OTHER] {
            burst.push_from(block.frame(0), origin);
        }
        burst.set_queue(9);
        leased.add(burst.frames());
        let group = leased.groups().next().unwrap();
        let marks: Vec<_> = group.as_slice().iter().map(|frame| (frame.is_lent(), frame.is_part())).collect();
        assert_eq!(marks, [(true, false), (false, true), (false, false), (false, false)]);
        // Nor by way of a burst that has chains of that queue.
        let mut other = Box::<BurstStorage>::default();
        let mut mixed = other.start();
        assert!(group.as_slice().iter().all(|frame| mixed.push_frame(&group, frame)));
        mixed.set_queue(9);
        for frames in [group, mixed.frames()] {
            assert!(
                frames
                    .as_slice()
                    .iter()
                    .all(|frame| frames.keep(frame, 9).is_none() && frames.keep(frame, 0).is_none())
            );
        }
    }

    #[test]
    fn leased_frames_are_read_by_another_thread_after_their_source_is_gone() {
        let block: Arc<FrameBlock> = [[5; 100]].iter().collect::<FrameBlock>().into();
        let mut leased = LeasedFrames::new(memories(&[&block]));
        let mut storage = Box::<BurstStorage>::default();
        for round in 0..2u8 {
            let mut burst = storage.start();
            let own = [round; 20];
            burst.push(block.frame(0));
            burst.push(Segment::from(&own[..]));
            leased.add(burst.frames());
        }
        drop((storage, block));
        let read = std::thread::spawn(move || content(&leased)).join().unwrap();
        assert_eq!(read, [[vec![5; 100], vec![0; 20]], [vec![5; 100], vec![1; 20]]]);
    }

    #[test]
    fn more_frames_than_a_burst_become_several_groups() {
        let bytes = [4; 20];
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        let (a, b) = Segment::from(&bytes[..]).split_at(3);
        assert!(burst.push_segments([a, b]));
        let frames = burst.frames();
        let many = vec![frames.as_slice()[0]; 2 * MAX_BURST + 1];
        let mut leased = LeasedFrames::new(memories(&[]));
        leased.add(frames.select(&many));
        leased.add(frames.select(&[]));
        let sizes: Vec<_> = leased.groups().map(|group| group.len()).collect();
        assert_eq!(sizes, [MAX_BURST, MAX_BURST, 1]);
        assert!(content(&leased).iter().flatten().all(|frame| frame[..] == bytes));
    }

    #[test]
    fn room_is_used_again() {
        let mut leased = LeasedFrames::new(memories(&[]));
        let long = vec![1; CHUNK / 2 + 1];
        let longest = vec![2; CHUNK + 1];
        for _ in 0..3 {
            for bytes in [&long, &long, &longest, &long] {
                let mut storage = Box::<BurstStorage>::default();
                let mut burst = storage.start();
                burst.push(Segment::from(&bytes[..]));
                leased.add(burst.frames());
            }
            let lengths: Vec<_> = content(&leased).iter().flatten().map(Vec::len).collect();
            assert_eq!(lengths, [long.len(), long.len(), longest.len(), long.len()]);
            assert_eq!(leased.own.chunks.len(), 4);
            leased.clear();
            assert!(leased.is_empty() && leased.bytes() == 0 && leased.groups().next().is_none());
        }
    }

    /// Location of a segment.
    #[derive(Clone, Copy, Debug)]
    enum SegmentLocation {
        /// In the memory of this number.
        Memory(usize),
        /// In bytes that end with the burst.
        Outside,
    }

    fn segments() -> impl Strategy<Value = Vec<(SegmentLocation, usize)>> {
        let place =
            prop_oneof![4 => (0usize..2).prop_map(SegmentLocation::Memory), 1 => Just(SegmentLocation::Outside)];
        prop::collection::vec((place, 1usize..60), 1..5)
    }

    // Under Miri a few frames a group: the next one is added as the one before was.
    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..Default::default() })]

        #[test]
        fn groups_are_read_as_they_were_added(
            rounds in prop::collection::vec(prop::collection::vec(prop::collection::vec(segments(), 1..if cfg!(miri) { 5 } else { 12 }), 1..4), 1..4),
        ) {
            let blocks = [0u8, 100].map(|first| Arc::new([(first..first + 100).collect::<Vec<u8>>()].iter().collect::<FrameBlock>()));
            let mut leased = LeasedFrames::new(memories(&[&blocks[0], &blocks[1]]));
            for groups in &rounds {
                let mut expected = Vec::new();
                for frames in groups {
                    let outside: Vec<u8> = (200..=255).chain(0..20).collect();
                    let mut storage = Box::<BurstStorage>::default();
                    let mut burst: Burst<'_, '_> = storage.start();
                    for frame in frames {
                        let part = |&(place, len): &(SegmentLocation, usize)| match place {
                            SegmentLocation::Memory(number) => blocks[number].frame(0).split_at(100 - len as u32).1,
                            SegmentLocation::Outside => Segment::from(&outside[..len]),
                        };
                        prop_assert!(burst.push_segments(frame.iter().map(part)));
                    }
                    let frames = burst.frames();
                    expected.push(frames.as_slice().iter().map(|frame| {
                        let mut bytes = vec![0; frame.len() as usize];
                        frames.copy_to(frame, &mut bytes);
                        bytes
                    }).collect::<Vec<_>>());
                    leased.add(frames);
                }
                let lengths = expected.iter().flatten().map(Vec::len);
                prop_assert_eq!((leased.len(), leased.bytes()), (lengths.clone().count(), lengths.sum::<usize>() as u64));
                prop_assert_eq!(content(&leased), expected);
                leased.clear();
            }
        }
    }
}
