//! Posted buffers that others fill: loans, and the frames that come back in them.

use super::super::aside::Aside;
use super::super::header::{is_header_valid, spoil_header};
use super::super::lend::{Borrower, FilledBuffer, FilledLoans, Landing, Loan, Terms, Told};
use super::super::posted::Posted;
use super::super::receive::{Prefetch, ReceiveRing};
use super::super::ring::each;
use super::{Enqueue, LOOK_AHEAD, Lends};
use crate::error::Fatal;
use crate::layout::NET_HEADER;
use crate::memory::DirtyLog;
use crate::unfinished;
use packet::{Burst, MAX_FRAME, MIN_FRAME, Origin, Segment};

impl<L: DirtyLog> Enqueue<L> {
    /// Lends posted buffers, to be filled elsewhere with a virtio header and a frame: passes each of them to `borrower`, until
    /// the next one is not as `terms` say, or is refused. Returns the number of loans.
    #[inline]
    pub fn lend(&self, Terms { room, keep, most }: Terms, borrower: &mut impl Borrower) -> Result<usize, Fatal> {
        self.reading.renew();
        for lent in 0..most {
            if self.posted.len() <= keep {
                self.look_ahead(LOOK_AHEAD, Prefetch::No)?;
                if self.posted.len() <= keep {
                    return Ok(lent);
                }
            }
            let buffer = self.posted.peek(0);
            if !fits(buffer, room) {
                return Ok(lent);
            }
            self.lends.set(Lends::Now);
            self.posted.pop(1);
            if let Err(refused) = borrower.put(Loan { buffer, queue: self.id }) {
                self.give_back(refused);
                return Ok(lent);
            }
        }
        Ok(most)
    }

    /// Reads posted buffers ahead, so that more than `keep` are at hand ([`Enqueue::posted`]), if there are.
    #[inline(never)]
    pub fn read_ahead(&self, keep: u32, prefetch: Prefetch) -> Result<(), Fatal> {
        self.reading.renew();
        let wanted = keep.saturating_add(LOOK_AHEAD);
        self.posted.make_room_for(wanted);
        self.look_ahead(wanted, prefetch)
    }

    /// Announces that no buffers will be lent for a while, so that those read ahead are prefetched.
    #[inline(never)]
    pub fn lend_no_more(&self) {
        if self.lends.get() == Lends::Now {
            self.lends.set(Lends::Before);
        }
    }

    /// Returns the number of posted buffers that are at hand for frames: those that were read and not used or lent since.
    #[inline]
    pub fn posted(&self) -> u32 {
        self.posted.len()
    }

    /// Returns the length of the next buffer's first run, if [`Enqueue::lend`] on the same terms refuses the buffer because
    /// that run is too short or the buffer is in pieces.
    #[inline]
    pub fn unfit(&self, Terms { room, keep, .. }: Terms) -> Option<u32> {
        let next = (self.posted.len() > keep).then(|| self.posted.peek(0));
        next.filter(|&buffer| !fits(buffer, room)).map(|buffer| buffer.len)
    }

    /// Adds the frames in `filled` loans to `burst`, marked as [`Origin::LENT`], without moving them, as long as there is room.
    /// If [`Enqueue::transmit`] then gets such a frame, it delivers it in this buffer, even if the frame was shortened or up to
    /// 16 bytes at its front were replaced; bytes that must move are moved within the buffer when the burst ends. It copies
    /// a [`Origin::PART`] of such a frame to another buffer. Returns the number of frames in loans.
    ///
    /// [`Origin::LENT`]: packet::Origin::LENT
    /// [`Origin::PART`]: packet::Origin::PART
    ///
    /// # Panics
    /// If `filled` fills the burst with other frames and then returns a loan.
    #[inline]
    pub fn receive_filled<'q>(&'q self, burst: &mut Burst<'_, 'q>, filled: &mut impl FilledLoans<'q>) -> usize {
        let mut frames = 0;
        while burst.room() > 0
            && let Some((loan, landing)) = filled.next(burst)
        {
            match self.take_filled(loan, landing, burst) {
                None => frames += 1,
                Some(loan) => filled.refused(loan),
            }
        }
        frames
    }

    /// Adds the frame in a loan to the burst, or returns the loan.
    #[inline(always)]
    fn take_filled<'q>(&'q self, loan: Loan, landing: Landing<'q>, burst: &mut Burst<'_, 'q>) -> Option<Loan> {
        let Landing { head, at, len, has_header } = landing;
        let whole = head.map_or(0, |head| head.len()).saturating_add(len);
        let fits = at.saturating_add(len) <= loan.buffer.len && (MIN_FRAME..=MAX_FRAME).contains(&whole);
        if loan.queue != self.id || !fits {
            return Some(loan);
        }
        self.mark_returned(&loan.buffer);
        // SAFETY: this queue lent the buffer after checking that it is mapped for its length, by a memory that the
        // queue holds; the frame starts and ends within it, even if `len` is zero.
        let rest = unsafe { Segment::new(loan.buffer.ptr.add(at as usize), len) };
        match head {
            None => burst.push_from(rest, Origin::LENT),
            Some(head) if len == 0 => burst.push_from(head, Origin::LENT),
            Some(head) => {
                let added = burst.push_segments_from([head, rest], Origin::LENT);
                debug_assert!(added, "there is room for two segments of each frame");
            }
        }
        self.filled.push(FilledBuffer { posted: loan.buffer, has_header });
        None
    }

    /// Makes the virtio header in `loan` invalid, to find out by [`Enqueue::has_valid_header`] whether the filler writes it.
    pub fn spoil_header(&self, loan: &Loan) {
        if loan.queue == self.id && loan.buffer.len >= NET_HEADER {
            // SAFETY: this queue lent the buffer after checking that it is mapped for its length, by a memory that the queue holds.
            unsafe { spoil_header(self.writer(), loan.buffer.ptr) };
        }
    }

    /// Reports whether `loan` has a header of a frame in one buffer, without offloads.
    pub fn has_valid_header(&self, loan: &Loan) -> bool {
        // SAFETY: as in `spoil_header`.
        loan.queue == self.id && loan.buffer.len >= NET_HEADER && unsafe { is_header_valid(loan.buffer.ptr) }
    }

    /// Finishes the checksum of a frame that was written into `loan`, if its sender left it to others, before the frame is added to a
    /// burst. Reports whether it was unfinished.
    pub fn finish_checksum(&self, loan: &Loan, landing: &Landing<'_>, told: Told) -> bool {
        let Landing { at, len, .. } = *landing;
        if loan.queue != self.id || at.max(NET_HEADER).saturating_add(len) > loan.buffer.len {
            return false;
        }
        let buffer = loan.buffer.ptr;
        // SAFETY: this queue lent the buffer after checking that it is mapped for its length, by a memory that the queue holds;
        // the header and the frame end within it.
        let (header, frame) = unsafe { (Segment::new(buffer, NET_HEADER), Segment::new(buffer.add(at as usize), len)) };
        let frame = std::iter::once(frame);
        let patch = match told {
            Told::Nothing => packet::unfinished::recognise(frame),
            Told::ByHeader => header.read().and_then(|header| unfinished::by_header(header, frame)),
        };
        let Some(patch) = patch else { return false };
        let bytes = patch.bytes();
        // SAFETY: the patch ends within the frame. A guest that changes the frame meanwhile changes only its own.
        unsafe { self.writer().shift(buffer.add((at + patch.at) as usize), bytes.as_ptr(), bytes.len()) };
        true
    }

    /// Ends a burst of filled buffers: makes pending moves, publishes delivered buffers, and passes the others to `unclaimed`.
    #[inline]
    pub fn settle(&self, mut unclaimed: impl FnMut(Loan)) {
        self.filled.fix_up(self.writer());
        while let Some(buffer) = self.filled.pop() {
            unclaimed(Loan { buffer, queue: self.id });
        }
        each!(&self.ring, ring => ring.publish());
    }

    /// Moves the filled loans of the present burst to `aside`, before any frame of the burst is transmitted: its frames stay where
    /// they are, and [`Enqueue::settle`] ends the burst without them. Returns false, and moves nothing, if `aside` has others
    /// of this queue, or if frames of this burst were transmitted and have to be moved; the burst then goes on as it was.
    #[inline]
    #[must_use = "they are still the present burst's if it returns false"]
    pub fn set_aside(&self, aside: &mut Aside) -> bool {
        let is_done = aside.take_from(&self.filled, self.id);
        if is_done {
            self.aside.set(self.aside.get() + aside.len());
        }
        is_done
    }

    /// Makes the loans in `aside` those of the present burst: if [`Enqueue::transmit`] gets their frames, it delivers them in
    /// place, and [`Enqueue::settle`] ends the burst. Returns false, and takes nothing, if another queue lent them, or if the
    /// burst before has not ended.
    #[inline]
    #[must_use = "they are still aside if it returns false"]
    pub fn take_up(&self, aside: &mut Aside) -> bool {
        let loans = aside.len();
        let is_done = aside.move_to(&self.filled, self.id);
        if is_done {
            self.aside.set(self.aside.get() - loans);
        }
        is_done
    }

    /// Returns the number of filled loans that are set aside.
    pub fn aside(&self) -> usize {
        self.aside.get()
    }

    /// Takes back an unfilled buffer, which is used next. Drops a loan of another queue.
    pub fn give_back(&self, loan: Loan) {
        if loan.queue == self.id {
            self.mark_returned(&loan.buffer);
            self.posted.push_front(loan.buffer);
        }
    }

    #[inline(always)]
    fn look_ahead(&self, wanted: u32, prefetch: Prefetch) -> Result<(), Fatal> {
        each!(&self.ring, ring => ring.look_ahead(&self.posted, wanted, prefetch, &self.reading))
    }

    /// Tells the log of a buffer that comes back: the borrower may have written to it even if it holds no frame.
    #[inline(always)]
    pub(super) fn mark_returned(&self, buffer: &Posted) {
        self.writer().mark_lent(buffer.ptr, buffer.len);
    }

    /// Returns all posted but unused buffers to the guest if any were lent. All loans must be back, also those set aside.
    pub fn close(&self) {
        // Lending returns buffers out of order, and a successor resumes where the used ring ends: it would lose those still here.
        if self.lends.get() != Lends::Never {
            each!(&self.ring, ring => self.return_posted(ring));
        }
    }

    fn return_posted(&self, ring: &impl ReceiveRing) {
        let mut used = ring.used();
        while self.posted.len() > 0 {
            let buffer = self.posted.peek(0);
            if buffer.is_last() {
                ring.put_empty(&mut used, buffer.chain());
            }
            self.posted.pop(1);
        }
        ring.set_used(used);
        ring.publish();
    }
}

/// Reports whether the buffer is a whole chain with at least `room` bytes.
#[inline(always)]
pub(super) fn fits(buffer: Posted, room: u32) -> bool {
    buffer.is_last() && buffer.len >= room
}
