//! A guest's receive queue: common to both ring formats except for finding and returning buffers.

mod pages;

use super::DropCounts;
use super::aside::Aside;
use super::budget::{Budget, cost};
use super::header::{is_header_valid, spoil_header, write_header};
use super::lend::{self, Borrower, Filled, FilledLoans, Landing, Loan, Terms, Told};
use super::posted::{Posted, PostedQueue};
use super::ring::DeviceRing;
use crate::config::{QueueConfig, features};
use crate::error::{Dropped, Fatal};
use crate::exchange::{Copied, CopyAll, Handover, Joined, PageMember, Tally};
use crate::layout::NET_HEADER;
use crate::unfinished;
use packet::copy::Copier;
use packet::{Burst, Frames, MAX_FRAME, MIN_FRAME, Origin, Segment, Taken};
use std::cell::Cell;
use std::sync::Arc;

/// Number of buffers read and prefetched before frames fill them. Measured: +40 to 58 % when the cores are far from
/// each other, 5 to 12 % when near.
const LOOK_AHEAD: u32 = 64;

/// Result of delivering some frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Frames delivered.
    pub frames: u32,
    /// Bytes of the delivered frames.
    pub bytes: u64,
    /// Frames dropped because the guest had posted too few buffers.
    pub no_buffers: u32,
    /// Frames dropped because no number of the guest's buffers holds them: longer than one buffer if those are not mergeable.
    pub too_long: u32,
    /// Frames dropped because the guest's buffers are too fragmented for the budget of one call.
    pub over_budget: u32,
}

/// Operations on a receive queue that differ between the ring formats.
pub(super) trait ReceiveRing {
    type Ring: DeviceRing;

    fn ring(&self) -> &Self::Ring;

    /// Reads posted buffers until `wanted` of them are at hand, none are left, or `budget` is spent. `fetch` prefetches
    /// their first cache lines for writing.
    fn look_ahead(&self, posted: &PostedQueue, wanted: u32, fetch: bool, budget: &Budget) -> Result<(), Fatal>;

    /// Where a call stands in returning chains. It is a local meanwhile: after each write to guest memory, a cell has to be
    /// read again.
    type Used;

    /// Returns where the next call goes on.
    fn used(&self) -> Self::Used;

    /// Stores where a call stands: before [`ReceiveRing::publish`], and before [`ReceiveRing::used`] is called again.
    fn set_used(&self, used: Self::Used);

    /// Returns the chain that ends with `last` to the guest, with `written` bytes in it, at least one. If `instead` is not zero,
    /// it is the number of the group's buffer, plus one, that the guest gets for the chain's own.
    fn put_used(&self, used: &mut Self::Used, last: Posted, written: u32, instead: u16);

    /// Returns the chain that ends with `last` to the guest, empty.
    fn put_unused(&self, used: &mut Self::Used, last: Posted);

    /// Publishes all returned chains at once.
    fn publish(&self);
}

/// A guest's receive queue.
pub struct Receiveq<R> {
    ring: R,
    posted: PostedQueue,
    /// Budgets left for the present call: for reading descriptors, and for filling or returning buffers.
    reading: Budget,
    filling: Budget,
    copier: Copier,
    mergeable: bool,
    size: u16,
    /// How frames may change hands, if they may, and whether most of the last ones did.
    hands: Option<Hands>,
    exchanges: Cell<bool>,
    dropped: Cell<DropCounts>,
    /// Identifies this queue on its loans.
    id: u64,
    lends: Cell<Lends>,
    filled: Filled,
    /// Number of filled loans that are set aside.
    aside: Cell<usize>,
}

/// How frames change hands instead of being copied.
pub(super) enum Hands {
    /// By their buffers, which are those of a group.
    Group(Joined),
    /// By the pages that they lie in.
    Pages(Arc<PageMember>),
}

/// Whether a queue lends. A queue that ever did has returned buffers in another order than they were posted in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lends {
    Never,
    /// It did, and now keeps all buffers for frames that are copied.
    Before,
    Now,
}

/// Result of looking for a frame's buffers at the front of the posted ones.
enum Room {
    /// The frame fits into these buffers, in these chains.
    Fits { buffers: u32, chains: u16 },
    /// There are too few buffers.
    TooFew,
    /// No number of buffers would do.
    Never,
    /// There may be enough buffers, but in too many pieces for this call.
    OverBudget,
}

#[allow(private_bounds)] // The ring formats are private.
impl<R: ReceiveRing> Receiveq<R> {
    pub(super) fn new(ring: R, config: &QueueConfig) -> Self {
        Receiveq {
            ring,
            posted: PostedQueue::new(config.size),
            reading: Budget::new(),
            filling: Budget::new(),
            copier: Copier::detect(),
            mergeable: config.negotiated.has(features::MRG_RXBUF),
            size: config.size,
            hands: None,
            exchanges: Cell::new(false),
            dropped: Cell::default(),
            id: lend::queue_id(),
            lends: Cell::new(Lends::Never),
            filled: Filled::new(),
            aside: Cell::new(0),
        }
    }

    #[cfg(feature = "analysis")]
    pub(super) fn without_copies(self) -> Self {
        Receiveq { copier: Copier::omitting(), ..self }
    }

    pub(super) fn allow(&mut self, hands: Hands) {
        let fits = !self.ring().in_order() || matches!(hands, Hands::Group(_));
        self.hands = fits.then_some(hands);
    }

    #[inline(always)]
    pub(super) fn exchanges(&self) -> bool {
        self.exchanges.get()
    }

    pub(super) fn ring(&self) -> &R::Ring {
        self.ring.ring()
    }

    pub(super) fn dropped(&self) -> DropCounts {
        self.dropped.get()
    }

    #[inline(always)]
    pub(super) fn transmit<'b>(&self, frames: Frames<'b>, taken: impl Taken<'b>) -> Result<Delivered, Fatal> {
        match &self.hands {
            Some(Hands::Group(joined)) if self.filled.is_empty() => self.exchange(frames, taken, joined),
            Some(Hands::Pages(member)) if self.filled.is_empty() => self.exchange_pages(frames, taken, member),
            _ if self.filled.is_empty() => self.deliver::<false>(frames, taken, &mut CopyAll),
            _ => self.deliver::<true>(frames, taken, &mut CopyAll),
        }
    }

    /// Delivers `frames`, as far as possible without copying them.
    #[inline(always)]
    fn exchange<'b>(&self, frames: Frames<'b>, taken: impl Taken<'b>, joined: &Joined) -> Result<Delivered, Fatal> {
        let (done, mut tally, why) = match joined.exchange(&frames) {
            Ok(mut exchanging) => {
                // Members trust each other: what one changes in a buffer that it has passed on is the other's risk.
                let done = self.deliver::<false>(frames, taken, &mut exchanging)?;
                (done, exchanging.tally(), Copied::Changed)
            }
            Err(reason) => (self.deliver::<false>(frames, taken, &mut CopyAll)?, Tally::default(), reason),
        };
        tally.add_copied(why, done.frames - tally.frames());
        self.exchanges.set(2 * tally.exchanged() > done.frames);
        joined.count(frames.offer(), tally);
        Ok(done)
    }

    /// Delivers `frames`. With `LENT`, some of them may lie in buffers of this queue. `handover` may exchange the buffers of frames
    /// for posted ones. What was `taken` of a frame is written over the copy of it.
    #[inline(always)]
    fn deliver<'b, const LENT: bool>(
        &self,
        frames: Frames<'b>,
        taken: impl Taken<'b>,
        handover: &mut impl Handover,
    ) -> Result<Delivered, Fatal> {
        let mut done = Delivered::default();
        let writer = self.ring().writer();
        let wanted = frames.len() as u32;
        self.reading.renew();
        self.filling.renew();
        if !LENT && self.posted.len() < wanted {
            self.ring.look_ahead(&self.posted, wanted, !self.exchanges.get(), &self.reading)?;
        }
        let (mut used, mut front) = (self.ring.used(), self.posted.front());
        for (i, frame) in frames.as_slice().iter().enumerate() {
            let need = frame.len() + NET_HEADER;
            if LENT && let Some(claimed) = self.filled.claim(&frames, frame) {
                if claimed.lacks_header {
                    // SAFETY: the buffer was checked to be mapped for its `len`, which is `need` or more.
                    unsafe { write_header(writer, claimed.buffer.ptr) };
                }
                self.ring.put_used(&mut used, claimed.buffer, need, 0);
                done.frames += 1;
                done.bytes += u64::from(frame.len());
                continue;
            }
            if let Some(buffer) = front.first() {
                let buffer = buffer.get();
                if buffer.is_last() && buffer.len >= need && frame.is_contiguous() {
                    let instead = handover.exchange(frame, buffer.ptr);
                    if instead == 0 {
                        // SAFETY: the buffer was checked to be mapped for its `len`, which is `need` or more, and the
                        // frame's first segment is all of it.
                        unsafe {
                            write_header(writer, buffer.ptr);
                            let payload = buffer.ptr.add(NET_HEADER as usize);
                            let (from, len) = (frame.first().as_ptr(), frame.len() as usize);
                            writer.copy_frame(self.copier, payload, from, len, (taken, i));
                        }
                    }
                    self.ring.put_used(&mut used, buffer, need, instead);
                    front.pass();
                    done.frames += 1;
                    done.bytes += u64::from(frame.len());
                    continue;
                }
            }
            // The rest is rare, and works on the queue itself.
            self.ring.set_used(used);
            self.posted.pop_to(&front);
            let room = self.scatter(&frames, i, taken)?;
            (used, front) = (self.ring.used(), self.posted.front());
            match room {
                Room::Fits { .. } => {
                    done.frames += 1;
                    done.bytes += u64::from(frame.len());
                }
                Room::Never => done.too_long += 1,
                // Later frames may take the fast path.
                Room::OverBudget => done.over_budget += 1,
                // Later frames may already lie in their buffers.
                Room::TooFew if LENT => done.no_buffers += 1,
                Room::TooFew => {
                    done.no_buffers = wanted - i as u32;
                    break;
                }
            }
        }
        self.ring.set_used(used);
        self.posted.pop_to(&front);
        if LENT {
            // Other ports may still have to copy from these buffers: `Receiveq::settle` publishes them to the guest.
            return Ok(done);
        }
        self.ring.publish();
        // Only after a burst: reading ahead while idle would steal cache lines from a guest that is posting.
        let fetch = self.lends.get() != Lends::Now && !self.exchanges.get();
        self.ring.look_ahead(&self.posted, LOOK_AHEAD, fetch, &self.reading)?;
        Ok(done)
    }

    #[inline(always)]
    pub(super) fn lend(&self, Terms { room, keep, most }: Terms, borrower: &mut impl Borrower) -> Result<usize, Fatal> {
        self.reading.renew();
        for lent in 0..most {
            if self.posted.len() <= keep {
                self.ring.look_ahead(&self.posted, LOOK_AHEAD, false, &self.reading)?;
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

    #[inline(never)]
    pub(super) fn read_ahead(&self, keep: u32, fetch: bool) -> Result<(), Fatal> {
        self.reading.renew();
        let wanted = keep.saturating_add(LOOK_AHEAD);
        self.posted.make_room_for(wanted);
        self.ring.look_ahead(&self.posted, wanted, fetch, &self.reading)
    }

    #[inline(never)]
    pub(super) fn lend_no_more(&self) {
        if self.lends.get() == Lends::Now {
            self.lends.set(Lends::Before);
        }
    }

    /// Returns the number of posted buffers that were read and are still here.
    #[inline(always)]
    pub(super) fn posted(&self) -> u32 {
        self.posted.len()
    }

    #[inline(always)]
    pub(super) fn unfit(&self, Terms { room, keep, .. }: Terms) -> Option<u32> {
        let next = (self.posted.len() > keep).then(|| self.posted.peek(0));
        next.filter(|&buffer| !fits(buffer, room)).map(|buffer| buffer.len)
    }

    #[inline(always)]
    pub(super) fn receive_filled<'q>(&'q self, burst: &mut Burst<'_, 'q>, filled: &mut impl FilledLoans<'q>) -> usize {
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
        self.mark_returned(&loan);
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
        self.filled.push(loan.buffer, has_header);
        None
    }

    /// Makes the header in an own loan invalid.
    pub(super) fn spoil_header(&self, loan: &Loan) {
        if loan.queue == self.id && loan.buffer.len >= NET_HEADER {
            // SAFETY: this queue lent the buffer after checking that it is mapped for its length, by a memory that the queue holds.
            unsafe { spoil_header(self.ring().writer(), loan.buffer.ptr) };
        }
    }

    /// Reports whether the header in an own loan is valid.
    pub(super) fn has_valid_header(&self, loan: &Loan) -> bool {
        // SAFETY: as in `spoil_header`.
        loan.queue == self.id && loan.buffer.len >= NET_HEADER && unsafe { is_header_valid(loan.buffer.ptr) }
    }

    /// As [`super::Enqueue::finish_checksum`].
    pub(super) fn finish_checksum(&self, loan: &Loan, landing: &Landing<'_>, told: Told) -> bool {
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
        unsafe { self.ring().writer().shift(buffer.add((at + patch.at) as usize), bytes.as_ptr(), bytes.len()) };
        true
    }

    #[inline(always)]
    pub(super) fn settle(&self, mut unclaimed: impl FnMut(Loan)) {
        self.filled.fix_up(self.ring().writer());
        while let Some(buffer) = self.filled.pop() {
            unclaimed(Loan { buffer, queue: self.id });
        }
        self.ring.publish();
    }

    #[inline]
    pub(super) fn set_aside(&self, aside: &mut Aside) -> bool {
        let is_done = aside.take_from(&self.filled, self.id);
        if is_done {
            self.aside.set(self.aside.get() + aside.len());
        }
        is_done
    }

    #[inline]
    pub(super) fn take_up(&self, aside: &mut Aside) -> bool {
        let loans = aside.len();
        let is_done = aside.move_to(&self.filled, self.id);
        if is_done {
            self.aside.set(self.aside.get() - loans);
        }
        is_done
    }

    pub(super) fn aside(&self) -> usize {
        self.aside.get()
    }

    pub(super) fn give_back(&self, loan: Loan) {
        if loan.queue == self.id {
            self.mark_returned(&loan);
            self.posted.push_front(loan.buffer);
        }
    }

    /// Tells the log of a buffer that comes back: the borrower may have written to it even if it holds no frame.
    #[inline(always)]
    fn mark_returned(&self, loan: &Loan) {
        self.ring().writer().mark_lent(loan.buffer.ptr, loan.buffer.len);
    }

    /// Returns all unused buffers, empty, if the queue has lent any. Lending returns buffers out of order, and a
    /// successor resumes where the used ring ends, so it would lose those still held here.
    pub(super) fn close(&self) {
        if self.lends.get() == Lends::Never {
            return;
        }
        let mut used = self.ring.used();
        while self.posted.len() > 0 {
            let buffer = self.posted.peek(0);
            if buffer.is_last() {
                self.ring.put_unused(&mut used, buffer);
            }
            self.posted.pop(1);
        }
        self.ring.set_used(used);
        self.ring.publish();
    }

    /// Delivers a frame that does not fit from one run of bytes into one buffer.
    #[cold]
    fn scatter<'b>(&self, frames: &Frames<'b>, index: usize, taken: impl Taken<'b>) -> Result<Room, Fatal> {
        let need = frames.as_slice()[index].len() + NET_HEADER;
        let room = self.find_room(need)?;
        let Room::Fits { buffers, chains } = room else { return Ok(room) };
        let mut header = [0; NET_HEADER as usize];
        header[10..].copy_from_slice(&chains.to_le_bytes());
        let header: &[u8] = &header;
        let writer = self.ring().writer();
        let mut segments = taken.segments(frames, index);
        let mut source = Some(Segment::from(header));
        let mut left = need;
        let mut in_chain = 0;
        for i in 0..buffers {
            let buffer = self.posted.peek(i);
            let mut filled = 0;
            while filled < buffer.len
                && let Some(segment) = source
            {
                let (now, rest) = segment.split_at(buffer.len - filled);
                // SAFETY: `now` fits into what is left of the buffer, which was checked to be mapped.
                unsafe {
                    let to = buffer.ptr.add(filled as usize);
                    writer.copy(self.copier, to, now.as_ptr(), now.len() as usize);
                }
                filled += now.len();
                source = if rest.is_empty() { segments.next() } else { Some(rest) };
            }
            in_chain += filled;
            left -= filled;
            if buffer.is_last() {
                let mut used = self.ring.used();
                self.ring.put_used(&mut used, buffer, in_chain, 0);
                self.ring.set_used(used);
                in_chain = 0;
            }
        }
        debug_assert_eq!(left, 0);
        self.posted.pop(buffers);
        Ok(room)
    }

    /// Finds the buffers for `need` bytes, reading more of them if needed. First returns chains at the front that
    /// cannot hold even a header. The budget pays for all of it.
    fn find_room(&self, need: u32) -> Result<Room, Fatal> {
        if self.filling.is_spent() {
            return Ok(Room::OverBudget);
        }
        let (mut buffers, mut chains, mut bytes) = (0, 0, 0u64);
        let room = loop {
            if buffers == self.posted.len() {
                // Each step reads at least one chain, so this ends: a queue has no more chains than its size.
                self.posted.make_room();
                self.ring.look_ahead(&self.posted, buffers + 1, false, &self.reading)?;
                if buffers == self.posted.len() {
                    break if self.reading.is_spent() { Room::OverBudget } else { Room::TooFew };
                }
            }
            let buffer = self.posted.peek(buffers);
            buffers += 1;
            bytes += u64::from(buffer.len);
            if !buffer.is_last() {
                continue;
            }
            if buffer.len == 0 || (chains == 0 && bytes < u64::from(NET_HEADER)) {
                if chains > 0 {
                    // In the middle of a frame: this chain waits until it is at the front, and this frame ends.
                    break Room::TooFew;
                }
                let reason = if buffer.len == 0 { Dropped::BadBuffer } else { Dropped::Short };
                DropCounts::count(&self.dropped, reason);
                let mut used = self.ring.used();
                self.ring.put_unused(&mut used, buffer);
                self.ring.set_used(used);
                self.posted.pop(buffers);
                self.filling.spend(buffers);
                (buffers, bytes) = (0, 0);
                if self.filling.is_spent() {
                    break Room::OverBudget;
                }
                continue;
            }
            chains += 1;
            if bytes >= u64::from(need) {
                break Room::Fits { buffers, chains };
            }
            if !self.mergeable || chains == self.size {
                break Room::Never;
            }
            if !self.filling.allows(cost(buffers, bytes)) {
                break Room::OverBudget;
            }
        };
        self.filling.spend(cost(buffers, bytes.min(need.into())));
        Ok(room)
    }
}

/// Reports whether the buffer is a whole chain with at least `room` bytes.
#[inline(always)]
fn fits(buffer: Posted, room: u32) -> bool {
    buffer.is_last() && buffer.len >= room
}
