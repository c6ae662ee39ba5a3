//! Frames to a guest that another process or a NIC wrote into the guest's buffers, spliced: see [`crate::device::splice`].

use super::super::chain::Access;
use super::super::header::write_header;
use super::super::lend::{Landing, Loan, Told};
use super::super::loans::{Entries, Loans, is_usual};
use super::super::posted::Posted;
use super::super::receive::ReceiveRing;
use super::super::ring::{DeviceRing, each};
use super::super::splice::{Pass, Spliced, next, passes};
use super::{Enqueue, Lends};
use crate::driver::{Buffer, Offer, Queue, Reach, Run, Take, TakenBack};
use crate::exchange::Instead;
use crate::layout::NET_HEADER;
use crate::memory::{DirtyLog, Lookup};
use packet::copy::prefetch;
use packet::{MAX_FRAME, MIN_FRAME};
use std::hint::cold_path;

/// Terms on which frames are received into a guest's buffers.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveTerms {
    /// Maximum number of frames.
    pub most: u16,
    /// Minimum length of a buffer that is lent, in bytes: room for a virtio header at least.
    pub room: u32,
    /// Number of buffers that stay with the guest's queue, for frames that are copied.
    pub keep: u32,
}

impl<L: DirtyLog> Enqueue<L> {
    /// Like [`Enqueue::splice_with`], with a virtio driver.
    #[inline]
    pub fn splice(&self, filler: &mut Queue, loans: &mut Loans, terms: ReceiveTerms, pass: impl Pass) -> Spliced {
        // Outside of the loops: what is called in two of them would be part of neither.
        match filler {
            Queue::Split(filler) => self.splice_with(filler, loans, terms, pass),
            Queue::Packed(filler) => self.splice_with(filler, loans, terms, pass),
        }
    }

    /// Delivers frames that `filler` returns in `loans` of this queue, and that `pass`, and lends it buffers in their place, all on these
    /// terms. Publishes both. All buffers of the burst before must have been settled.
    #[inline(always)]
    pub fn splice_with(
        &self,
        filler: &mut impl Run,
        loans: &mut Loans,
        terms: ReceiveTerms,
        mut pass: impl Pass,
    ) -> Spliced {
        debug_assert!(self.filled.is_empty(), "a burst ends before the next one begins");
        each!(&self.ring, ring => self.splice_by(ring, filler, loans, terms, &mut pass))
    }

    #[inline(always)]
    fn splice_by<R: ReceiveRing + DeviceRing, F: Run, P: Pass>(
        &self,
        ring: &R,
        filler: &mut F,
        loans: &mut Loans,
        ReceiveTerms { most, room, keep }: ReceiveTerms,
        pass: &mut P,
    ) -> Spliced {
        let Some(Entries { entries, count, watch }) = loans.of(self.id) else { return Spliced::NOTHING };
        if P::LOOKS {
            // The filler's processor wrote them.
            filler.peek(most, |id| {
                if let Some(entry) = entries.get(usize::from(id)) {
                    prefetch(entry.ptr.wrapping_add(NET_HEADER as usize));
                }
            });
        }
        let mut delivery = Delivery {
            queue: self,
            ring,
            entries,
            used: ring.used(),
            pass,
            writes_headers: F::WRITES_HEADERS,
            leaves_checksums: !F::WRITES_HEADERS && filler.leaves_checksums(),
            bytes: 0,
            finished: 0,
        };
        let TakenBack { chains: frames, stopped } = filler.take_back(most, &mut delivery);
        let Delivery { entries, used, bytes, finished, .. } = delivery;
        ring.set_used(used);
        ring.publish();
        watch.look(entries);
        let free = filler.free();
        let lent = if free > 0 { self.lend_by(ring, filler, entries, free, (room, keep)) } else { Lent::default() };
        if lent.count > 0 {
            watch.lent(lent.last);
            self.lends.set(Lends::Now);
            filler.publish();
        }
        *count = *count + lent.count - frames;
        Spliced { frames: frames.into(), bytes, back: lent.count, finished, stopped: stopped || lent.stopped }
    }

    /// Finishes the checksum of a frame of `len` bytes in this buffer. Reports whether it was unfinished.
    #[inline(never)]
    fn finish(&self, buffer: Posted, len: u32) -> bool {
        self.finish_checksum(&Loan { buffer, queue: self.id }, &Landing::whole(len), Told::Nothing)
    }

    /// Lends up to `most` buffers of `room` bytes or more: those that the general way has read, but for as many as it keeps, and those
    /// in the ring.
    #[inline(always)]
    fn lend_by<R: DeviceRing>(
        &self,
        ring: &R,
        filler: &mut impl Run,
        entries: &mut [Posted],
        most: u16,
        (room, keep): (u32, u32),
    ) -> Lent {
        // The general way reads others to keep.
        let Some(read) = self.posted.len().checked_sub(keep) else { return Lent::STOPPED };
        let before = if read > 0 {
            let most = most.min(read.try_into().unwrap_or(u16::MAX));
            self.lend_read(filler, entries, most, room)
        } else {
            Lent::default()
        };
        let most = most - before.count;
        if most == 0 || before.stopped {
            return before;
        }
        let Ok((available, known)) = ring.read_available(most, Access::Write) else { return before.and(Lent::STOPPED) };
        let lend = Lend { entries, reach: filler.reach(), room, last: 0 };
        let mut buffers =
            Available { ring, memory: ring.common().areas.memory.lookup(), available, stopped: false, lend };
        let count = filler.add_each(most.min(known), &mut buffers);
        let Available { available, stopped, lend: Lend { last, .. }, .. } = buffers;
        ring.set_available(available);
        before.and(Lent { count, last, stopped })
    }

    /// Lends up to `most` buffers of those that the general way has read, which are as many at least.
    #[inline(never)]
    fn lend_read(&self, filler: &mut impl Run, entries: &mut [Posted], most: u16, room: u32) -> Lent {
        let mut lend = Lend { entries, reach: filler.reach(), room, last: 0 };
        let count = filler.add_each(most, |id| {
            let buffer = Some(self.posted.peek(0)).filter(|buffer| buffer.is_last())?;
            let lent = lend.lend(id, buffer)?;
            self.posted.pop(1);
            Some(lent)
        });
        Lent { count, last: lend.last, stopped: count < most }
    }
}

/// Filled buffers that go back to the guest.
struct Delivery<'d, R: ReceiveRing, L: DirtyLog, P> {
    queue: &'d Enqueue<L>,
    ring: &'d R,
    /// Loans by id.
    entries: &'d mut [Posted],
    used: R::Used,
    pass: &'d mut P,
    /// See [`Run`].
    writes_headers: bool,
    leaves_checksums: bool,
    /// Bytes of the frames so far, and number of those whose checksum was finished.
    bytes: u64,
    finished: u32,
}

impl<R: ReceiveRing, L: DirtyLog, P: Pass> Take for &mut Delivery<'_, R, L, P> {
    #[inline(always)]
    fn take(&mut self, id: u16, written: u32) -> bool {
        let frame = written.wrapping_sub(NET_HEADER);
        let entry = self.entries.get_mut(usize::from(id)).filter(|entry| is_usual(entry) && written <= entry.len);
        let entry = entry.filter(|_| frame.wrapping_sub(MIN_FRAME) <= MAX_FRAME - MIN_FRAME);
        // SAFETY: this queue lent the buffer after checking that it is mapped for its length, which is `written` or more.
        let Some(entry) = entry.filter(|entry| unsafe { passes(self.pass, entry, frame) }) else {
            return false;
        };
        self.queue.mark_returned(entry);
        if !self.writes_headers {
            // SAFETY: this queue lent the buffer after checking that it is mapped for its length, in which `written` lies, by a
            // memory that the queue holds.
            unsafe { write_header(self.queue.writer(), entry.ptr) };
        }
        if self.leaves_checksums {
            self.finished += u32::from(self.queue.finish(*entry, frame));
        }
        self.ring.put_used(&mut self.used, *entry, written, Instead::OWN);
        entry.slots = 0;
        self.bytes += u64::from(frame);
        true
    }
}

/// Buffers that were lent.
#[derive(Default)]
struct Lent {
    count: u16,
    /// Id of the last one, if there are any.
    last: u16,
    /// Whether the next one has to go the general way.
    stopped: bool,
}

impl Lent {
    const STOPPED: Lent = Lent { count: 0, last: 0, stopped: true };

    /// Adds those that were lent later.
    #[inline(always)]
    fn and(self, later: Lent) -> Lent {
        let last = if later.count > 0 { later.last } else { self.last };
        Lent { count: self.count + later.count, last, stopped: later.stopped }
    }
}

/// Lends buffers to a filler.
struct Lend<'e, C> {
    entries: &'e mut [Posted],
    reach: C,
    room: u32,
    /// Id of the last one.
    last: u16,
}

impl<C: Reach> Lend<'_, C> {
    /// Lends a buffer as the chain with this id, if it is long enough and lies where the filler reaches it.
    #[inline(always)]
    fn lend(&mut self, id: u16, buffer: Posted) -> Option<Buffer> {
        if buffer.len < self.room {
            return None;
        }
        let addr = self.reach.address(buffer.ptr.addr() as u64, buffer.len)?;
        *self.entries.get_mut(usize::from(id))? = buffer;
        self.last = id;
        Some(Buffer { addr, len: buffer.len, writable: true })
    }
}

/// Available buffers of the ring.
struct Available<'r, R: DeviceRing, C> {
    ring: &'r R,
    memory: Lookup<'r>,
    available: R::Available,
    /// Whether the next one has to go the general way.
    stopped: bool,
    lend: Lend<'r, C>,
}

impl<R: DeviceRing, C: Reach> Offer for &mut Available<'_, R, C> {
    #[inline(always)]
    fn offer(&mut self, id: u16) -> Option<Buffer> {
        let buffer = next(self.ring, self.memory, &self.available);
        let Some(lent) = buffer.and_then(|buffer| self.lend.lend(id, buffer)) else {
            cold_path();
            self.stopped = self.ring.has_available(&self.available);
            return None;
        };
        self.ring.pass_available(&mut self.available);
        Some(lent)
    }
}
