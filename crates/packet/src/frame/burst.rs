//! Frames taken together from one queue.
#![allow(unsafe_code)]

use super::{Frame, Frames, MAX_BURST, MAX_BURST_BYTES, MAX_FRAME, MAX_SEGMENTS, Offer, Origin, Segment};
use crate::offload::{Offload, Offloads};
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Storage for one burst, which a worker reuses.
pub struct BurstStorage {
    pub(super) frames: [MaybeUninit<Frame<'static>>; MAX_BURST],
    pub(super) segments: [MaybeUninit<Segment<'static>>; MAX_SEGMENTS],
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
            unread_from: u32::MAX,
            queue: 0,
            kept: Cell::new(0),
            offer: None,
            offloads: Offloads::NONE,
            lent: PhantomData,
        }
    }
}

/// Frames taken from one queue, until they are returned to it.
pub struct Burst<'s, 'q> {
    pub(super) storage: &'s mut BurstStorage,
    /// Maximum number of frames, at most [`MAX_BURST`].
    most: usize,
    pub(super) frames: usize,
    segments: usize,
    pub(super) bytes: u64,
    /// Length from which frames are sent without being read.
    unread_from: u32,
    /// The queue of the frames, if their chains can be kept, and a bit for each kept chain.
    queue: u64,
    kept: Cell<u32>,
    /// The queue's record of buffers given for those of its frames.
    offer: Option<&'q Offer>,
    /// What a receiver of all these frames must be able to do.
    offloads: Offloads,
    lent: PhantomData<&'q [u8]>,
}

/// Adds frames of one segment to a burst, which has them when this is dropped. Their number is a local meanwhile, as a burst's would be
/// stored and loaded with every frame.
pub struct Filling<'a, 'q> {
    places: &'a mut [MaybeUninit<Frame<'static>>],
    added: usize,
    bytes: u64,
    frames_of_burst: &'a mut usize,
    bytes_of_burst: &'a mut u64,
    lent: PhantomData<&'q [u8]>,
}

impl<'q> Filling<'_, 'q> {
    /// Adds a frame, as [`Burst::push_from`].
    ///
    /// # Panics
    /// If there is no room.
    #[inline(always)]
    pub fn push_from(&mut self, segment: Segment<'q>, origin: Origin) {
        self.places[self.added].write(Frame::of(segment, origin).forget());
        self.added += 1;
        self.bytes += u64::from(segment.len());
    }
}

impl Drop for Filling<'_, '_> {
    #[inline(always)]
    fn drop(&mut self) {
        *self.frames_of_burst += self.added;
        *self.bytes_of_burst += self.bytes;
    }
}

impl<'q> Burst<'_, 'q> {
    /// Starts to add frames of one segment.
    #[inline(always)]
    pub fn fill(&mut self) -> Filling<'_, 'q> {
        Filling {
            places: &mut self.storage.frames[self.frames..self.most],
            added: 0,
            bytes: 0,
            frames_of_burst: &mut self.frames,
            bytes_of_burst: &mut self.bytes,
            lent: PhantomData,
        }
    }

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

    /// Reports whether a queue would end the burst here though it had more frames.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.frames == self.most || self.bytes >= MAX_BURST_BYTES
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

    /// Announces that frames of at least `len` bytes will be sent without being read, so that prefetching them would only
    /// take cache lines from other processors.
    #[inline(always)]
    pub fn set_unread_from(&mut self, len: u32) {
        self.unread_from = len;
    }

    /// Returns the length set by [`Burst::set_unread_from`].
    #[inline(always)]
    pub fn unread_from(&self) -> u32 {
        self.unread_from
    }

    /// Adds a frame of one segment.
    ///
    /// # Panics
    /// If there is no [`Burst::room`].
    #[inline(always)]
    pub fn push(&mut self, segment: Segment<'q>) {
        self.push_from(segment, Origin::OTHER);
    }

    /// Adds a frame of one segment that lies where `origin` says. In a chain that may be kept, a virtio header of the same buffer
    /// precedes it.
    #[inline(always)]
    pub fn push_from(&mut self, segment: Segment<'q>, origin: Origin) {
        self.put(Frame::of(segment, origin));
    }

    /// Sets the queue that the chains belong to.
    #[inline(always)]
    pub fn set_queue(&mut self, queue: u64) {
        self.queue = queue;
    }

    /// Sets the record of buffers given for those of the chains.
    #[inline(always)]
    pub fn set_offer(&mut self, offer: &'q Offer) {
        self.offer = Some(offer);
    }

    /// Takes over the record of the frames that those of this burst are made from.
    #[inline(always)]
    pub fn set_offer_of(&mut self, frames: &Frames<'q>) {
        self.offer = frames.offer;
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
        self.push_segments_from(segments, Origin::OTHER)
    }

    /// Like [`Burst::push_segments`], for segments that lie where `origin` says: it is no chain that can be kept.
    ///
    /// # Panics
    /// If there is no [`Burst::room`].
    #[must_use]
    pub fn push_segments_from(&mut self, segments: impl IntoIterator<Item = Segment<'q>>, origin: Origin) -> bool {
        let mut segments = segments.into_iter();
        let Some(first) = segments.next() else { return false };
        let start = self.segments;
        let mut at = start;
        let mut len = u64::from(first.len());
        for segment in segments {
            let Some(slot) = self.storage.segments.get_mut(at) else { return false };
            slot.write(segment.forget());
            at += 1;
            len += u64::from(segment.len());
        }
        if len > u64::from(MAX_FRAME) {
            return false;
        }
        self.segments = at;
        let (more_start, more_len) = (start as u16, (at - start) as u16);
        self.put(Frame { first, len: len as u32, more_start, more_len, origin, offload: Offload::NONE });
        true
    }

    /// Adds `frame` with other bytes: others in front of its transport header, which lies `moved` bytes further behind, the same from there
    /// on. Its chain can no longer be kept, as no virtio header precedes the frame. Returns false, and adds nothing, as
    /// [`Burst::push_segments`] does.
    ///
    /// # Panics
    /// If there is no [`Burst::room`].
    #[must_use]
    pub fn push_rebuilt(
        &mut self,
        frame: &Frame<'_>,
        moved: i32,
        segments: impl IntoIterator<Item = Segment<'q>>,
    ) -> bool {
        let Some(offload) = frame.offload.moved(moved) else { return false };
        let added = self.push_segments_from(segments, frame.origin.cut());
        if added {
            self.leave(offload);
        }
        added
    }

    /// Notes the work that the sender of the last frame left to others.
    ///
    /// # Panics
    /// If there is no frame.
    #[inline]
    pub fn leave(&mut self, offload: Offload) {
        // SAFETY: `put` wrote the entries before `frames`; the index is checked.
        let last = unsafe { self.storage.frames[self.frames - 1].assume_init_mut() };
        last.offload = offload;
        self.offloads |= offload.needs();
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
        self.offer = frames.offer;
        if !frame.is_contiguous() {
            let origin = if frame.is_alone() { Origin::SPREAD } else { Origin::OTHER };
            let added = self.push_segments_from(frames.segments(frame), origin);
            if added {
                self.leave(frame.offload);
            }
            return added;
        }
        self.queue = frames.queue;
        self.offloads |= frame.offload.needs();
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

    /// Notes the work that `left` returns of each frame from the one at `first` on, and removes frames for which it returns `None`.
    pub fn describe(&mut self, first: usize, mut left: impl FnMut(&Frame<'_>) -> Option<Offload>) {
        let first = first.min(self.frames);
        let mut kept = first;
        for i in first..self.frames {
            // SAFETY: `put` wrote the entries before `frames`, and `Filling` did.
            let mut frame = unsafe { self.storage.frames[i].assume_init() };
            match left(&frame) {
                Some(offload) => {
                    self.offloads |= offload.needs();
                    frame.offload = offload;
                    self.storage.frames[kept].write(frame);
                    kept += 1;
                }
                None => self.bytes -= u64::from(frame.len),
            }
        }
        self.frames = kept;
    }

    /// Returns all frames of the burst, borrowed until they are returned to their queue.
    #[inline(always)]
    pub fn frames(&self) -> Frames<'_> {
        // SAFETY: the first `frames` and `segments` entries were written by `put`, `Filling` and `push_segments`, with lifetimes
        // that contain the borrow of `self`.
        unsafe {
            Frames {
                frames: std::slice::from_raw_parts(self.storage.frames.as_ptr().cast(), self.frames),
                segments: std::slice::from_raw_parts(self.storage.segments.as_ptr().cast(), self.segments),
                queue: self.queue,
                kept: &self.kept,
                offer: self.offer,
                may_exchange: false,
                offloads: self.offloads,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LeasedFrames;

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
        let mut copy = [0; 42];
        assert_eq!((frames.copy_to(two, &mut copy[..5]), &copy[..6]), (5, &[20, 21, 22, 23, 24, 0][..]));
        assert_eq!(frames.copy_to(two, &mut copy), 41);
        assert_eq!(frames.segments(two).map(|s| s.len()).collect::<Vec<_>>(), [3, 37, 1]);
    }

    #[test]
    fn frames_that_fill_a_burst_are_its_own_afterwards() {
        let mut storage = Box::<BurstStorage>::default();
        let bytes = [7; 64];
        let mut burst = storage.start();
        burst.push(Segment::from(&bytes[..20]));
        burst.limit(2);
        let mut filling = burst.fill();
        filling.push_from(Segment::from(&bytes[..30]), Origin { place: 1, id: 9 });
        filling.push_from(Segment::from(&bytes[..40]), Origin::OTHER);
        drop(filling);
        assert_eq!((burst.len(), burst.room(), burst.bytes()), (3, 0, 90));
        let places: Vec<_> = burst.frames().as_slice().iter().map(|f| (f.len(), f.chain_place())).collect();
        assert_eq!(places, [(20, None), (30, Some(1)), (40, None)]);
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_full_burst_is_not_filled() {
        let mut storage = Box::<BurstStorage>::default();
        let bytes = [7; 64];
        let mut burst = storage.start();
        burst.limit(0);
        burst.fill().push_from(Segment::from(&bytes[..]), Origin::OTHER);
    }

    #[test]
    fn frames_grown_beyond_the_longest_are_not_added() {
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
        (0..3).for_each(|place| burst.push_from(Segment::from(&bytes[..]), Origin { place, id: 40 + place }));
        burst.set_queue(9);
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
    fn marks_stay_when_a_frame_is_cut_and_name_no_chain() {
        let bytes = [7; 64];
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        burst.push_from(Segment::from(&bytes[..]), Origin::LENT);
        let (a, b) = Segment::from(&bytes[..]).split_at(20);
        assert!(burst.push_segments_from([a, b], Origin::PART));
        burst.push(Segment::from(&bytes[..]));
        burst.set_queue(9);
        burst.trim(|_, _| Some((10, 60)));
        let frames = burst.frames();
        let marks: Vec<_> = frames.as_slice().iter().map(|frame| (frame.is_lent(), frame.is_part())).collect();
        assert_eq!(marks, [(true, false), (false, true), (false, false)]);
        assert!(frames.as_slice().iter().all(|frame| frames.keep(frame, 9).is_none()));
    }

    #[test]
    fn a_copied_frame_of_one_segment_gets_no_others() {
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
    fn work_that_a_sender_left_stays_with_its_frame() {
        let (mut storage, mut other, mut third) =
            (Box::<BurstStorage>::default(), Box::<BurstStorage>::default(), Box::<BurstStorage>::default());
        let bytes = [7; 64];
        let mut burst = storage.start();
        (0..4).for_each(|len| burst.push(Segment::from(&bytes[..60 + len])));
        let (checksum, moved) = (Offload::checksum(34, 16), Offload::checksum(38, 16));
        burst.describe(1, |frame| match frame.len() {
            61 => None,
            62 => Some(checksum),
            _ => Some(Offload::NONE),
        });
        assert_eq!((burst.len(), burst.bytes(), burst.frames().offloads()), (3, 185, Offloads::CHECKSUM));
        let works = |frames: Frames<'_>| frames.as_slice().iter().map(Frame::offload).collect::<Vec<_>>();
        let frames = burst.frames();
        assert_eq!(works(frames), [Offload::NONE, checksum, Offload::NONE]);
        let (head, tail) = frames.as_slice()[1].first().split_at(12);
        let mut copied = other.start();
        assert!(copied.push_frame(&frames, &frames.as_slice()[1]));
        assert!(copied.push_rebuilt(&frames.as_slice()[1], 4, [head, Segment::from(&bytes[..4]), tail]));
        assert!(
            !copied.push_rebuilt(&frames.as_slice()[1], -60, [head]),
            "the transport header can't lie before the frame"
        );
        assert_eq!((works(copied.frames()), copied.frames().offloads()), (vec![checksum, moved], Offloads::CHECKSUM));
        let mut leased = LeasedFrames::new(Vec::new().into());
        leased.add(copied.frames());
        let mut again = third.start();
        for group in leased.groups() {
            assert_eq!((works(group), group.offloads()), (vec![checksum, moved], Offloads::CHECKSUM));
            assert!(group.as_slice().iter().all(|frame| again.push_frame(&group, frame)));
        }
        assert_eq!(works(again.frames()), [checksum, moved]);
        leased.clear();
        leased.add(frames.select(&frames.as_slice()[..1]));
        assert_eq!(works(leased.groups().next().unwrap()), [Offload::NONE]);
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
