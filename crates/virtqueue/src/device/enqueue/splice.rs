//! Frames to a guest that another process or a NIC wrote into the guest's buffers, spliced: see [`crate::device::splice`].

use super::super::chain::Access;
use super::super::header::write_header;
use super::super::lend::{Landing, Loan, Told};
use super::super::loans::{Entries, Loans, is_usual};
use super::super::posted::Posted;
use super::super::receive::ReceiveRing;
use super::super::ring::{DeviceRing, each};
use super::super::splice::{Pass, Spliced, passes, single};
use super::lending::fits;
use super::{Enqueue, Lends};
use crate::driver::{Buffer, Queue, Reach, Run, TakenBack};
use crate::exchange::Instead;
use crate::layout::NET_HEADER;
use crate::memory::DirtyLog;
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
        let Some(mut loaned) = loans.of(self.id) else { return Spliced::NOTHING };
        let Entries { entries, watch } = &mut loaned;
        if P::LOOKS {
            // The filler's processor wrote them.
            filler.peek(most, |id| {
                if let Some(entry) = entries.get(usize::from(id)) {
                    prefetch(entry.ptr.wrapping_add(NET_HEADER as usize));
                }
            });
        }
        let (mut used, mut bytes, mut finished) = (ring.used(), 0, 0);
        let leaves_checksums = !F::WRITES_HEADERS && filler.leaves_checksums();
        let TakenBack { chains: frames, mut stopped } = filler.take_back(most, |id: u16, written: u32| {
            let frame = written.wrapping_sub(NET_HEADER);
            let entry = entries.get_mut(usize::from(id)).filter(|entry| is_usual(entry) && written <= entry.len);
            let entry = entry.filter(|_| frame.wrapping_sub(MIN_FRAME) <= MAX_FRAME - MIN_FRAME);
            // SAFETY: this queue lent the buffer after checking that it is mapped for its length, which is `written` or more.
            let Some(entry) = entry.filter(|entry| unsafe { passes(pass, entry, frame) }) else {
                return false;
            };
            self.mark_returned(entry);
            if !F::WRITES_HEADERS {
                // SAFETY: this queue lent the buffer after checking that it is mapped for its length, in which `written` lies, by a
                // memory that the queue holds.
                unsafe { write_header(self.writer(), entry.ptr) };
            }
            if leaves_checksums {
                finished += u32::from(self.finish(*entry, frame));
            }
            ring.put_used(&mut used, *entry, written, Instead::OWN);
            entry.slots = 0;
            watch.returned(id);
            bytes += u64::from(frame);
            true
        });
        ring.set_used(used);
        ring.publish();
        let free = filler.free();
        let back =
            if free > 0 { self.lend_by::<R, P>(ring, filler, loaned, free, (room, keep), &mut stopped) } else { 0 };
        loans.moved(frames, back);
        Spliced { frames: frames.into(), bytes, back, finished, stopped }
    }

    /// Finishes the checksum of a frame of `len` bytes in this buffer. Reports whether it was unfinished.
    #[inline(never)]
    fn finish(&self, buffer: Posted, len: u32) -> bool {
        self.finish_checksum(&Loan { buffer, queue: self.id }, &Landing::whole(len), Told::Nothing)
    }

    /// Lends up to `most` buffers of `room` bytes or more: those that the general way has read, but for as many as it keeps, and those
    /// in the ring. Returns their number.
    #[inline(always)]
    #[expect(clippy::extra_unused_type_parameters, reason = "a closure that the ways of passing share is not inlined")]
    fn lend_by<R: DeviceRing, P: Pass>(
        &self,
        ring: &R,
        filler: &mut impl Run,
        Entries { entries, watch }: Entries<'_>,
        most: u16,
        (room, keep): (u32, u32),
        stopped: &mut bool,
    ) -> u16 {
        // The general way reads others to keep.
        let Some(mut read) = self.posted.len().checked_sub(keep) else {
            *stopped = true;
            return 0;
        };
        let Ok(mut available) = ring.read_available(most) else {
            *stopped = true;
            return 0;
        };
        let memory = &*ring.common().areas.memory;
        let reach = filler.reach();
        let lent = filler.add_each(most, |id| {
            let was_read = read > 0;
            let buffer = if was_read {
                cold_path();
                Some(self.posted.peek(0)).filter(|&buffer| fits(buffer, room))
            } else {
                let head = match ring.head_at(&available) {
                    Ok(None) => return None,
                    Ok(Some(head)) => single::<R>(memory, head, Access::Write),
                    Err(_) => None,
                };
                head.filter(|buffer| buffer.len >= room)
            };
            let reached = buffer.and_then(|at| Some((at, reach.address(at.ptr.addr() as u64, at.len)?)));
            let Some((buffer, addr)) = reached else {
                *stopped = true;
                return None;
            };
            if was_read {
                cold_path();
                self.posted.pop(1);
                read -= 1;
            } else {
                ring.pass_available(&mut available, buffer.slots);
            }
            entries[usize::from(id)] = buffer;
            watch.lent(id);
            Some(Buffer { addr, len: buffer.len, writable: true })
        });
        ring.set_available(available);
        if lent > 0 {
            self.lends.set(Lends::Now);
            filler.publish();
        }
        lent
    }
}
