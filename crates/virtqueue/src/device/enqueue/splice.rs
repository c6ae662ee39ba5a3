//! Frames to a guest that another process or a NIC wrote into the guest's buffers, spliced: see [`crate::device::splice`].

use super::super::chain::Access;
use super::super::header::write_header;
use super::super::lend::{Landing, Loan, Told};
use super::super::loans::{Entries, Loans, is_usual};
use super::super::posted::Posted;
use super::super::receive::ReceiveRing;
use super::super::ring::{DeviceRing, each};
use super::super::splice::{Spliced, single};
use super::lending::fits;
use super::{Enqueue, Lends};
use crate::driver::{Buffer, Queue, Reach, Run, TakenBack};
use crate::exchange::Instead;
use crate::layout::NET_HEADER;
use crate::memory::DirtyLog;
use packet::{MAX_FRAME, MIN_FRAME};
use std::hint::cold_path;

impl<L: DirtyLog> Enqueue<L> {
    /// Like [`Enqueue::splice_with`], with a virtio driver.
    #[inline]
    pub fn splice(&self, filler: &mut Queue, loans: &mut Loans, most: u16, room: u32) -> Spliced {
        // Outside of the loops: what is called in two of them would be part of neither.
        match filler {
            Queue::Split(filler) => self.splice_with(filler, loans, most, room),
            Queue::Packed(filler) => self.splice_with(filler, loans, most, room),
        }
    }

    /// Delivers up to `most` frames that `filler` returns in `loans` of this queue, and lends it buffers of at least `room` bytes in
    /// their place, which is room for a virtio header at least. Publishes both. All buffers of the burst before must have been settled.
    #[inline(always)]
    pub fn splice_with(&self, filler: &mut impl Run, loans: &mut Loans, most: u16, room: u32) -> Spliced {
        debug_assert!(self.filled.is_empty(), "a burst ends before the next one begins");
        each!(&self.ring, ring => self.splice_by(ring, filler, loans, most, room))
    }

    #[inline(always)]
    fn splice_by<R: ReceiveRing + DeviceRing, F: Run>(
        &self,
        ring: &R,
        filler: &mut F,
        loans: &mut Loans,
        most: u16,
        room: u32,
    ) -> Spliced {
        let Some(mut loaned) = loans.of(self.id) else { return Spliced::NOTHING };
        let Entries { entries, watch } = &mut loaned;
        let (mut used, mut bytes, mut finished) = (ring.used(), 0, 0);
        let leaves_checksums = !F::WRITES_HEADERS && filler.leaves_checksums();
        let TakenBack { chains: frames, mut stopped } = filler.take_back(most, |id, written| {
            let frame = written.wrapping_sub(NET_HEADER);
            let entry = entries.get_mut(usize::from(id)).filter(|entry| is_usual(entry) && written <= entry.len);
            let Some(entry) = entry.filter(|_| frame.wrapping_sub(MIN_FRAME) <= MAX_FRAME - MIN_FRAME) else {
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
        let back = if free > 0 { self.lend_by(ring, filler, loaned, free, room, &mut stopped) } else { 0 };
        loans.moved(frames, back);
        Spliced { frames: frames.into(), bytes, back, finished, stopped }
    }

    /// Finishes the checksum of a frame of `len` bytes in this buffer. Reports whether it was unfinished.
    #[inline(never)]
    fn finish(&self, buffer: Posted, len: u32) -> bool {
        self.finish_checksum(&Loan { buffer, queue: self.id }, &Landing::whole(len), Told::Nothing)
    }

    /// Lends up to `most` buffers: those that the general way has read, and those in the ring. Returns their number.
    #[inline(always)]
    fn lend_by<R: DeviceRing>(
        &self,
        ring: &R,
        filler: &mut impl Run,
        Entries { entries, watch }: Entries<'_>,
        most: u16,
        room: u32,
        stopped: &mut bool,
    ) -> u16 {
        let Ok(mut available) = ring.read_available(most) else {
            *stopped = true;
            return 0;
        };
        let memory = &*ring.common().areas.memory;
        let mut read = self.posted.len();
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
