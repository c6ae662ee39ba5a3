//! Delivery by exchange of pages: a burst's pairs are gathered, and exchanged at once.

use super::super::budget::cost;
use super::super::header::{write_header, write_header_of};
use super::super::receive::{Prefetch, ReceiveRing};
use super::{Delivered, Enqueue, LOOK_AHEAD, NONE_LENT, NOTHING_LEFT, Room};
use crate::error::Fatal;
use crate::exchange::{Copied, CopyAll, Instead, PIECES, PageMember, Passing, Skipped, Tally};
use crate::layout::NET_HEADER;
use crate::memory::DirtyLog;
use packet::{Frames, MAX_BURST, Taken};

/// A frame whose pages are to be exchanged: where its header goes, and its pairs.
#[derive(Clone, Copy)]
struct Head {
    /// Index of the frame.
    frame: usize,
    header: *mut u8,
    first: usize,
    pieces: u16,
}

impl Head {
    const NONE: Head = Head { frame: 0, header: std::ptr::null_mut(), first: 0, pieces: 0 };
}

impl<L: DirtyLog> Enqueue<L> {
    /// Delivers `frames`, as far as possible by exchanging the pages that they lie in.
    #[inline(never)]
    pub(super) fn exchange_pages<'b>(
        &self,
        ring: &impl ReceiveRing,
        frames: Frames<'b>,
        taken: impl Taken<'b>,
        member: &PageMember,
    ) -> Result<Delivered, Fatal> {
        let mut tally = Tally::default();
        let done = match Passing::find(&frames, member) {
            Ok(mut passing) => self.pass(ring, &frames, taken, &mut passing, &mut tally)?,
            Err(reason) => {
                let done = self.deliver::<_, NONE_LENT, NOTHING_LEFT>(ring, frames, taken, &mut CopyAll)?;
                tally.add_copied(reason, done.frames);
                done
            }
        };
        self.exchanges.set(2 * tally.exchanged() > done.frames);
        member.grid().add(frames.offer(), member.port(), tally);
        Ok(done)
    }

    fn pass<'b>(
        &self,
        ring: &impl ReceiveRing,
        frames: &Frames<'b>,
        taken: impl Taken<'b>,
        passing: &mut Passing<'_>,
        tally: &mut Tally,
    ) -> Result<Delivered, Fatal> {
        let mut done = Delivered::default();
        let mut heads = [Head::NONE; MAX_BURST];
        let mut count = 0;
        let wanted = frames.len() as u32;
        self.reading.renew();
        self.filling.renew();
        if self.posted.len() < wanted {
            ring.look_ahead(&self.posted, wanted, Prefetch::No, &self.reading)?;
        }
        for (i, frame) in frames.as_slice().iter().enumerate() {
            let gathered = match heads.get_mut(count) {
                Some(head) => self.gather(ring, frames, i, taken.taken(i), passing)?.map(|gathered| *head = gathered),
                None => Err(Copied::Changed),
            };
            let room = match gathered {
                Ok(()) => {
                    count += 1;
                    Room::Fits { buffers: 1, chains: 1 }
                }
                Err(_) => self.copy(ring, frames, i, taken)?,
            };
            match room {
                Room::Fits { .. } => {
                    done.frames += 1;
                    done.bytes += u64::from(frame.len());
                    if let Err(reason) = gathered {
                        tally.add_copied(reason, 1);
                    }
                }
                Room::Never => done.too_long += 1,
                Room::OverBudget => done.over_budget += 1,
                Room::TooFew => {
                    done.no_buffers = wanted - i as u32;
                    break;
                }
            }
        }
        self.complete(&heads[..count], taken, passing, tally);
        ring.publish();
        ring.look_ahead(&self.posted, LOOK_AHEAD, Prefetch::No, &self.reading)?;
        Ok(done)
    }

    /// Adds the pages of a frame to those to be exchanged, and returns the posted buffers, which it does not publish. Or tells
    /// why the frame has to be copied.
    #[inline]
    fn gather(
        &self,
        ring: &impl ReceiveRing,
        frames: &Frames<'_>,
        index: usize,
        taken: &[u8],
        passing: &mut Passing<'_>,
    ) -> Result<Result<Head, Copied>, Fatal> {
        let frame = &frames.as_slice()[index];
        if frame.len() < passing.threshold() {
            return Ok(Err(Copied::Short));
        }
        let pieces = frames.segments(frame).count() as u32;
        // The taken bytes are written to the first page.
        if !frame.is_alone() || pieces > PIECES || (frame.first().len() as usize) < taken.len() {
            return Ok(Err(Copied::Changed));
        }
        if pieces > 1 && (!self.mergeable || self.filling.is_spent()) {
            return Ok(Err(Copied::Foreign));
        }
        if self.posted.len() < pieces {
            self.posted.make_room();
            ring.look_ahead(&self.posted, pieces, Prefetch::No, &self.reading)?;
            if self.posted.len() < pieces {
                return Ok(Err(Copied::Foreign));
            }
        }
        let first = passing.len();
        // The virtio header is in front of the first piece.
        let lead = |i: u32| if i == 0 { NET_HEADER } else { 0 };
        for (i, segment) in (0..).zip(frames.segments(frame)) {
            let buffer = self.posted.peek(i);
            let need = segment.len() + lead(i);
            // All buffers of a frame but the last are used completely (virtio 1.2 §5.1.6.4).
            let fits = if i + 1 == pieces { buffer.len >= need } else { buffer.len == need };
            if !(buffer.is_last() && fits && passing.add(segment.as_ptr(), segment.len(), lead(i), buffer.ptr)) {
                passing.truncate(first);
                return Ok(Err(Copied::Foreign));
            }
        }
        let header = self.posted.peek(0).ptr;
        let mut used = ring.used();
        for (i, segment) in (0..).zip(frames.segments(frame)) {
            ring.put_used(&mut used, self.posted.peek(i), segment.len() + lead(i), Instead::OWN);
        }
        ring.set_used(used);
        self.posted.pop(pieces);
        if pieces > 1 {
            self.filling.spend(cost(pieces, frame.len().into()));
        }
        Ok(Ok(Head { frame: index, header, first, pieces: pieces as u16 }))
    }

    /// Copies a frame to the next posted buffers.
    fn copy<'b>(
        &self,
        ring: &impl ReceiveRing,
        frames: &Frames<'b>,
        index: usize,
        taken: impl Taken<'b>,
    ) -> Result<Room, Fatal> {
        let frame = &frames.as_slice()[index];
        let need = frame.len() + NET_HEADER;
        if self.posted.len() > 0 && frame.is_contiguous() {
            let buffer = self.posted.peek(0);
            if buffer.is_last() && buffer.len >= need {
                let writer = self.writer();
                // SAFETY: the buffer was checked to be mapped for its `len`, which is `need` or more, and the frame's first
                // segment is all of it.
                unsafe {
                    write_header(writer, buffer.ptr);
                    let payload = buffer.ptr.add(NET_HEADER as usize);
                    let (from, len) = (frame.first().as_ptr(), frame.len() as usize);
                    writer.copy_frame(self.copier, payload, from, len, taken, index);
                }
                ring.put_one(buffer, need);
                self.posted.pop(1);
                return Ok(Room::Fits { buffers: 1, chains: 1 });
            }
        }
        self.scatter(ring, frames, index, taken)
    }

    /// Exchanges the pages of all gathered frames, copies those that stay, and writes the headers and the taken bytes of the
    /// frames: these have to be in the pages that came, which their sender can't change any more.
    fn complete<'b>(&self, heads: &[Head], taken: impl Taken<'b>, passing: &Passing<'_>, tally: &mut Tally) {
        let skipped = if heads.is_empty() { Some(Skipped::default()) } else { passing.exchange() };
        let writer = self.writer();
        for &Head { frame, header, first, pieces } in heads {
            let mut is_held = false;
            for pair in first..first + usize::from(pieces) {
                if skipped.is_none_or(|skipped| skipped.contains(pair)) {
                    is_held = true;
                    self.copy_piece(passing, pair);
                }
            }
            // SAFETY: the first posted buffer has room for a header before its piece, and was checked to be mapped; the piece is no
            // shorter than the taken bytes.
            unsafe {
                write_header_of(writer, header, pieces);
                writer.put_taken(header.add(NET_HEADER as usize), taken, frame);
            }
            match (skipped, is_held) {
                (None, _) => tally.add_copied(Copied::Foreign, 1),
                (_, true) => tally.add_copied(Copied::Held, 1),
                (_, false) => tally.add_exchanged(),
            }
        }
    }

    /// Copies a piece whose pages were not exchanged.
    #[cold]
    fn copy_piece(&self, passing: &Passing<'_>, pair: usize) {
        if let Some((from, to, len)) = passing.copy_of(pair) {
            // SAFETY: both were just found to be mapped for `len` bytes, by memories that the two queues hold.
            unsafe { self.writer().copy(self.copier, to.as_ptr(), from.as_ptr(), len.into()) };
        }
    }
}
