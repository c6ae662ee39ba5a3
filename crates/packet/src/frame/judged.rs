//! Judged frames: the bytes that a decision was based on are the bytes that are sent.
//!
//! A guest may change a frame after the switch has read it. So a reader of headers takes them once, by value, and gets the
//! frames back with them: there is no other way to read headers, and senders of these frames send these headers.
//!
//! ```
//! use packet::{BurstStorage, Headers, Segment};
//!
//! let (bytes, mut room) = ([7; 60], Headers::default());
//! let mut storage = Box::<BurstStorage>::default();
//! let mut burst = storage.start();
//! burst.push(Segment::from(&bytes[..]));
//! let mut judging = burst.frames().judge(&mut room);
//! assert_eq!(judging.next().unwrap().destination(), 0x07_07_07_07_07_07);
//! let judged = judging.end();
//! // The header, as it was read, and the bytes after it.
//! assert_eq!(judged.segments(0).map(|segment| segment.len()).collect::<Vec<_>>(), [14, 46]);
//! ```
//!
//! There is no other access to the header of a frame:
//!
//! ```compile_fail,E0624
//! use packet::{BurstStorage, Segment};
//!
//! let bytes = [7; 60];
//! let mut storage = Box::<BurstStorage>::default();
//! let mut burst = storage.start();
//! burst.push(Segment::from(&bytes[..]));
//! let frames = burst.frames();
//! frames.ethernet(&frames.as_slice()[0]);
//! ```
#![allow(unsafe_code)]

use super::{Burst, Ethernet, Frame, Frames, MAX_BURST, MIN_FRAME, Segment};
use std::iter::Zip;
use std::mem::MaybeUninit;
use std::slice;

/// Bytes of a [`Head`]: all headers that anybody decides by.
pub const HEAD: usize = 128;

/// Minimum length of a frame for a whole block to be copied at once.
const BLOCK: usize = HEAD / 2;

/// The first bytes of a frame, taken once.
#[derive(Clone)]
pub struct Head {
    bytes: [u8; HEAD],
    len: usize,
    /// Number of these bytes that are sent as they were taken. Zero for a frame in a buffer of the guest that it may be for:
    /// it stays there, and all other possible receivers trust that guest.
    sent: usize,
}

impl Default for Head {
    fn default() -> Self {
        Head { bytes: [0; HEAD], len: 0, sent: 0 }
    }
}

impl Head {
    #[inline(always)]
    fn take(&mut self, frames: &Frames<'_>, frame: &Frame<'_>) {
        let first = frame.first();
        let len = frame.len() as usize;
        self.len = len.min(HEAD);
        self.sent = if frame.is_lent() { 0 } else { self.len };
        if let Some(bytes) = first.read::<HEAD>() {
            self.bytes = bytes;
        } else if frame.is_contiguous()
            && let Some(block) = first.read::<BLOCK>()
        {
            self.bytes[..BLOCK].copy_from_slice(&block);
            if len > BLOCK
                && let Some(block) = first.split_at((len - BLOCK) as u32).1.read::<BLOCK>()
            {
                // The two blocks may overlap; the second one wins.
                self.bytes[len - BLOCK..len].copy_from_slice(&block);
            }
        } else {
            frames.copy_to(frame, &mut self.bytes);
        }
    }

    /// Returns the bytes: as many as the frame has, at most [`HEAD`].
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    #[inline(always)]
    fn sent(&self) -> &[u8] {
        &self.bytes[..self.sent]
    }

    /// Returns the Ethernet header.
    #[inline(always)]
    pub fn ethernet(&self) -> Ethernet {
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| self.bytes[at + i]));
        Ethernet { start: word(0), end: word(6) }
    }

    /// Returns a block that begins with these bytes, and their number: there may be more than in the block, or fewer.
    #[inline(always)]
    pub fn block<const N: usize>(&self) -> (&[u8; N], usize) {
        const { assert!(N <= HEAD) };
        (self.bytes.first_chunk().expect("it is shorter"), self.len)
    }
}

/// Room for the heads of a burst, which a worker reuses.
pub type Heads = [Head; MAX_BURST];

/// An Ethernet header as it is sent: 14 bytes of these.
#[derive(Clone, Copy, Default)]
#[repr(C, align(16))]
struct Header([u8; 16]);

impl Header {
    /// Offset of the second word in the first 14 bytes.
    const END: usize = MIN_FRAME as usize - size_of::<u64>();

    #[inline(always)]
    fn set(&mut self, read: Ethernet) {
        let to = self.0.as_mut_ptr();
        // SAFETY: both words lie in the 16 bytes. The source's first bytes are in both: the second one counts, as for the judge.
        unsafe {
            to.cast::<u64>().write(read.start);
            to.add(Header::END).cast::<u64>().write_unaligned(read.end);
        }
    }

    /// Writes the header's 14 bytes.
    ///
    /// # Safety
    /// `to` must be writable for them.
    #[inline(always)]
    unsafe fn put(&self, to: *mut u8) {
        let from = self.0.as_ptr();
        // SAFETY: both words lie in the 16 bytes, and in the caller's 14.
        unsafe {
            let (start, end) = (from.cast::<u64>().read(), from.add(Header::END).cast::<u64>().read_unaligned());
            to.cast::<u64>().write_unaligned(start);
            to.add(Header::END).cast::<u64>().write_unaligned(end);
        }
    }
}

/// Room for the Ethernet headers of a burst, which a worker reuses.
#[derive(Clone, Default)]
pub struct Headers([Header; MAX_BURST]);

impl<'b> Frames<'b> {
    /// Takes the Ethernet header of each frame in turn, into `room`.
    #[inline(always)]
    pub fn judge<'s>(self, room: &'s mut Headers) -> Judging<'s, 'b> {
        assert!(self.len() <= MAX_BURST, "a burst has no more frames");
        let room: *mut Headers = room;
        // SAFETY: it is borrowed for 's, by the iterator as long as there is one; then only `Judging::end` reaches it.
        let headers = unsafe { (*room).0.iter_mut() };
        Judging { frames: self, room, left: self.as_slice().iter().zip(headers) }
    }

    /// Returns these frames with headers that were taken of others, to whose indices `of` leads: each is made of such a frame.
    ///
    /// # Panics
    /// If a frame has no such header, or no room for it.
    pub fn with_headers(self, taken: &Headers, of: impl Iterator<Item = usize>, room: &'b mut Headers) -> Judged<'b> {
        let mut headers = room.0.iter_mut().zip(of.map(|index| taken.0[index]));
        for frame in self.as_slice() {
            assert!(frame.len() >= MIN_FRAME, "a frame without a whole header came into a burst");
            let (header, taken) = headers.next().expect("each frame is made of another one");
            *header = taken;
        }
        Judged { frames: self, taken: Kind::Headers(room) }
    }

    /// Takes the head of each frame, into `room`. The chains of these frames can't be kept: they would be sent from where a guest can
    /// still change what decides whether they may leave. An Ethernet header decides no more than where a frame goes.
    #[inline(always)]
    pub fn judge_heads(self, room: &'b mut Heads) -> Judged<'b> {
        for (head, frame) in room.iter_mut().zip(self.as_slice()) {
            head.take(&self, frame);
        }
        Judged { frames: Frames { queue: 0, ..self }, taken: Kind::Heads(room) }
    }
}

/// Frames whose Ethernet headers are taken one by one.
pub struct Judging<'s, 'b> {
    frames: Frames<'b>,
    room: *mut Headers,
    left: Zip<slice::Iter<'b, Frame<'b>>, slice::IterMut<'s, Header>>,
}

impl Iterator for Judging<'_, '_> {
    type Item = Ethernet;

    #[inline(always)]
    fn next(&mut self) -> Option<Ethernet> {
        let (frame, header) = self.left.next()?;
        let read = self.frames.ethernet(frame);
        header.set(read);
        Some(read)
    }
}

impl<'s, 'b: 's> Judging<'s, 'b> {
    /// Returns how many headers were taken.
    pub fn so_far(&self) -> usize {
        self.frames.len() - self.left.len()
    }

    /// Returns the frames with their headers. Takes those that were not read, too.
    #[inline(always)]
    pub fn end(mut self) -> Judged<'s> {
        self.by_ref().for_each(drop);
        let Judging { frames, room, .. } = self;
        // SAFETY: it is borrowed for 's, and the iterator over it is gone.
        Judged { frames, taken: Kind::Headers(unsafe { &*room }) }
    }
}

/// The taken bytes of frames, in the form that senders need.
pub trait Taken<'b>: Copy {
    /// Writes the taken bytes of the frame at `index` to `to`, where the frame was copied to before.
    ///
    /// # Safety
    /// `index` must be that of a frame of these, and `to` writable for as many bytes as were taken; a frame has no fewer.
    unsafe fn put(self, index: usize, to: *mut u8);

    /// Returns the taken bytes of the frame at `index`.
    fn taken(self, index: usize) -> &'b [u8];

    /// Returns the bytes of the frame at `index` as they are sent: the taken ones, and those after them, which lie where they
    /// were.
    fn segments(self, frames: &Frames<'b>, index: usize) -> impl Iterator<Item = Segment<'b>> + Clone + use<'b, Self> {
        behind(self.taken(index), frames, index)
    }
}

/// Returns the bytes of a frame, with these instead of its first ones.
fn behind<'b>(
    taken: &'b [u8],
    frames: &Frames<'b>,
    index: usize,
) -> impl Iterator<Item = Segment<'b>> + Clone + use<'b> {
    let rest = frames.segments(&frames.as_slice()[index]).scan(taken.len() as u32, |skip, segment| {
        let (skipped, rest) = segment.split_at(*skip);
        *skip -= skipped.len();
        Some(rest)
    });
    let taken = (!taken.is_empty()).then(|| Segment::from(taken));
    taken.into_iter().chain(rest.filter(|rest| !rest.is_empty()))
}

/// Nothing is taken: the frames were not judged.
#[derive(Clone, Copy, Debug)]
pub struct Unjudged;

impl<'b> Taken<'b> for Unjudged {
    // SAFETY: it writes nothing, wherever `to` points.
    #[inline(always)]
    unsafe fn put(self, _: usize, _: *mut u8) {}

    #[inline(always)]
    fn taken(self, _: usize) -> &'b [u8] {
        &[]
    }

    #[inline(always)]
    fn segments(self, frames: &Frames<'b>, index: usize) -> impl Iterator<Item = Segment<'b>> + Clone + use<'b> {
        frames.segments(&frames.as_slice()[index])
    }
}

impl<'b> Taken<'b> for &'b Headers {
    // SAFETY: the caller vouches for the frame and for `to`, as the trait says; nothing else is written.
    #[inline(always)]
    unsafe fn put(self, index: usize, to: *mut u8) {
        // SAFETY: the caller's frame has a header here, and room for it there.
        unsafe { self.0.get_unchecked(index).put(to) };
    }

    #[inline(always)]
    fn taken(self, index: usize) -> &'b [u8] {
        &self.0[index].0[..MIN_FRAME as usize]
    }
}

impl<'b> Taken<'b> for &'b Heads {
    // SAFETY: as above; a head is no longer than its frame.
    #[inline(always)]
    unsafe fn put(self, index: usize, to: *mut u8) {
        let bytes = self[index].sent();
        // SAFETY: these are no more bytes than the frame has; ours overlap with nobody's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    #[inline(always)]
    fn taken(self, index: usize) -> &'b [u8] {
        self[index].sent()
    }
}

/// Kinds of taken bytes.
#[derive(Clone, Copy)]
pub enum Kind<'b> {
    /// Ethernet headers.
    Headers(&'b Headers),
    /// Longer ones.
    Heads(&'b Heads),
}

/// Frames and the bytes of them that were taken.
#[derive(Clone, Copy)]
pub struct Judged<'b> {
    frames: Frames<'b>,
    taken: Kind<'b>,
}

impl<'b> Judged<'b> {
    /// Returns the frames in memory, for senders that write the taken bytes over those that they read there.
    #[inline(always)]
    pub fn frames(&self) -> Frames<'b> {
        self.frames
    }

    /// Returns the heads of the frames, if these were taken.
    #[inline(always)]
    pub fn heads(&self) -> &'b [Head] {
        match self.taken {
            Kind::Headers(_) => &[],
            Kind::Heads(heads) => &heads[..self.frames.len()],
        }
    }

    /// Returns the taken bytes.
    #[inline(always)]
    pub fn taken(&self) -> Kind<'b> {
        self.taken
    }

    /// Does the same as [`Frames::exchangeable`].
    #[inline(always)]
    pub fn exchangeable(self) -> Judged<'b> {
        Judged { frames: self.frames.exchangeable(), ..self }
    }

    /// Adds the frames to a burst, each as its taken bytes and the rest. Returns how many have too many segments for it.
    pub fn add_to(&self, burst: &mut Burst<'_, 'b>) -> u32 {
        burst.set_offer_of(&self.frames);
        (0..self.frames.len()).map(|index| u32::from(!self.add_one(index, burst))).sum()
    }

    /// Adds one frame to a burst, as its taken bytes and the rest. Returns false if it has too many segments for it.
    #[must_use]
    pub fn add_one(&self, index: usize, burst: &mut Burst<'_, 'b>) -> bool {
        burst.push_rebuilt(&self.frames.as_slice()[index], 0, self.segments(index))
    }

    /// Returns the bytes of the frame at `index` as they are sent.
    pub fn segments(&self, index: usize) -> impl Iterator<Item = Segment<'b>> + Clone + use<'b> {
        let taken = match self.taken {
            Kind::Headers(taken) => taken.taken(index),
            Kind::Heads(taken) => taken.taken(index),
        };
        behind(taken, &self.frames, index)
    }

    /// Selects frames, in this order: the index of each, and whether it goes elsewhere, too. The chains of the latter can't be kept.
    #[inline(always)]
    pub fn select<'s>(&self, chosen: impl Iterator<Item = (usize, bool)>, room: &'s mut Selected) -> Judged<'s>
    where
        'b: 's,
    {
        let Selected { frames, headers, heads } = room;
        let mut count = 0;
        for ((index, is_shared), slot) in chosen.zip(frames.iter_mut()) {
            let frame = self.frames.as_slice()[index];
            let origin = if is_shared { frame.origin.cut() } else { frame.origin };
            slot.write(Frame { origin, ..frame.forget() });
            match self.taken {
                Kind::Headers(taken) => headers.0[count] = taken.0[index],
                Kind::Heads(taken) => heads[count].clone_from(&taken[index]),
            }
            count += 1;
        }
        // SAFETY: the first `count` entries were written, with frames that live for 'b, which contains 's.
        let frames = unsafe { slice::from_raw_parts(frames.as_ptr().cast::<Frame<'s>>(), count) };
        let taken = match self.taken {
            Kind::Headers(_) => Kind::Headers(headers),
            Kind::Heads(_) => Kind::Heads(heads),
        };
        Judged { frames: Frames { frames, ..self.frames }, taken }
    }
}

/// Room for a selection of judged frames, which a worker reuses.
pub struct Selected {
    frames: [MaybeUninit<Frame<'static>>; MAX_BURST],
    headers: Headers,
    heads: Heads,
}

// SAFETY: entries stored for an earlier selection are never read again; the pointers in them are dead.
unsafe impl Send for Selected {}

impl Default for Selected {
    fn default() -> Self {
        Selected {
            frames: [MaybeUninit::uninit(); MAX_BURST],
            headers: Headers::default(),
            heads: std::array::from_fn(|_| Head::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{BurstStorage, Origin};
    use proptest::prelude::*;
    use std::cell::UnsafeCell;

    /// Memory that another process writes to.
    struct Shared(UnsafeCell<Vec<u8>>);

    impl Shared {
        fn segment(&self, from: usize, len: usize) -> Segment<'_> {
            // SAFETY: the vector is neither moved nor resized, and others reach it by pointers only.
            unsafe { Segment::new((*self.0.get()).as_ptr().add(from), len as u32) }
        }

        fn invert(&self) {
            // SAFETY: nobody has a reference to the bytes.
            unsafe { (*self.0.get()).iter_mut().for_each(|byte| *byte = !*byte) };
        }
    }

    fn bytes_of(segments: impl Iterator<Item = Segment<'static>>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for segment in segments {
            let at = bytes.len();
            bytes.resize(at + segment.len() as usize, 0);
            segment.copy_to(&mut bytes[at..]);
        }
        bytes
    }

    /// Returns the frames as they are sent, in segments and as a copy that is written over.
    fn sent(judged: &Judged<'_>) -> Vec<Vec<u8>> {
        let (mut storage, frames) = (Box::<BurstStorage>::default(), judged.frames());
        let mut burst = storage.start();
        assert_eq!(judged.add_to(&mut burst), 0);
        let together = burst.frames();
        let all = together.as_slice().iter().enumerate().map(|(index, frame)| {
            let bytes = bytes_of(together.segments(frame).map(|segment| segment.forget()));
            let mut copy = vec![0; frame.len() as usize];
            frames.copy_to(&frames.as_slice()[index], &mut copy);
            match judged.taken() {
                // SAFETY: the copy is as long as the frame at `index`.
                Kind::Headers(taken) => unsafe { taken.put(index, copy.as_mut_ptr()) },
                // SAFETY: as above.
                Kind::Heads(taken) => unsafe { taken.put(index, copy.as_mut_ptr()) },
            }
            assert_eq!(copy, bytes);
            bytes
        });
        all.collect()
    }

    // Under Miri a few frames: the next one is judged as the one before was.
    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..Default::default() })]

        #[test]
        fn taken_headers_are_sent_even_if_the_frame_changes(
            frames in prop::collection::vec((prop::collection::vec(1usize..80, 1..4), 14usize..200), 1..if cfg!(miri) { 4 } else { MAX_BURST }),
            by_heads: bool,
            chosen in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..MAX_BURST),
        ) {
            let frames: Vec<Vec<usize>> = frames.into_iter().map(|(mut cuts, len)| {
                // The last segment makes the frame long enough.
                cuts.push(len);
                cuts
            }).collect();
            let lengths: Vec<usize> = frames.iter().map(|cuts| cuts.iter().sum()).collect();
            let total: usize = lengths.iter().sum();
            let memory = Shared(UnsafeCell::new((0..total).map(|at| (at * 7) as u8).collect()));
            let mut storage = Box::<BurstStorage>::default();
            let mut burst = storage.start();
            let mut at = 0;
            for cuts in &frames {
                let segments = cuts.iter().map(|&len| {
                    at += len;
                    memory.segment(at - len, len)
                });
                let origin = Origin { place: 0, id: 1 };
                prop_assert!(burst.push_segments_from(segments, origin));
            }
            burst.set_queue(9);
            let (mut headers, mut heads) = (Headers::default(), Box::<Heads>::default());
            let judged = if by_heads { burst.frames().judge_heads(&mut heads) } else { burst.frames().judge(&mut headers).end() };
            for frame in judged.frames().as_slice() {
                prop_assert_eq!(judged.frames().keep(frame, 9).is_some(), !by_heads);
            }
            let taken = if by_heads { HEAD } else { MIN_FRAME as usize };
            let mut start = 0;
            let expected: Vec<Vec<u8>> = lengths.iter().map(|len| {
                let byte = |at: usize| ((start + at) * 7) as u8;
                let frame = (0..*len).map(|at| if at < taken { byte(at) } else { !byte(at) }).collect();
                start += len;
                frame
            }).collect();
            memory.invert();
            prop_assert_eq!(sent(&judged), expected.clone());
            let chosen: Vec<(usize, bool)> = chosen.iter().map(|(index, shared)| (index.index(frames.len()), *shared)).collect();
            let mut selected = Selected::default();
            let some = judged.select(chosen.iter().copied(), &mut selected);
            prop_assert_eq!(sent(&some), chosen.iter().map(|(index, _)| expected[*index].clone()).collect::<Vec<_>>());
            for (frame, (_, is_shared)) in some.frames().as_slice().iter().zip(&chosen) {
                prop_assert_eq!(frame.chain_place().is_some(), !is_shared);
            }
        }
    }
}
