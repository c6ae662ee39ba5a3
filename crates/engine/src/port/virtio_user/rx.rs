//! The receive half of a virtio-user queue.

mod splice;
mod zero_copy;

use super::header_probe::HeaderProbe;
use super::{BufferedQueue, QueueResources, ROOM};
use crate::drops::Reason;
use crate::port::unfinished;
use crate::port::zero_copy::{GuestBuffers, LEND_ROOM, Lending, Mapped, RESERVE, RESERVE_ASLEEP, ZeroCopyRx};
use crate::port::{HoldBursts, RxQueue, Wait};
use packet::copy::prefetch;
use packet::offload::{Offload, Offloads, header};
use packet::{Burst, HEAD, MIN_FRAME};
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use vhost_user::Event;
use vhost_user::frontend::Returned as DeviceReturned;
use virtqueue::device::{Landing, Loan, Loans};
use virtqueue::driver::Buffer;
use virtqueue::memory::Arena;
use virtqueue::{NET_HEADER, offload, ordering};

/// The switch's own share in a chain that the device has, beside a guest's buffer ([`VirtioReceive::loans`]).
#[derive(Clone, Copy, Default)]
enum Held {
    #[default]
    Nothing,
    /// An own buffer, by index. There is no guest's.
    Own(u16),
    /// The own buffer, by index, with the first bytes of a frame that is scattered.
    Head(u16),
    /// No buffer, but the header in the guest's was made invalid.
    Spoiled,
}

/// A buffer that the device has returned.
enum Returned {
    /// One of the switch's own, by index.
    Own(u16),
    Lent(Lent),
}

/// A guest's buffer that the device has returned.
struct Lent {
    loan: Loan,
    /// If frames are scattered, the own buffer with their first bytes, by index.
    head: Option<u16>,
    /// Whether its header was made invalid.
    spoiled: bool,
}

/// Receive half: frames from the device.
pub struct VirtioReceive {
    end: RefCell<BufferedQueue<Held>>,
    /// The arena again, to lend frames from it while the ring changes.
    arena: Arc<Arena>,
    mergeable: bool,
    /// Work that the device may leave on frames. If there is none, what it leaves nevertheless is done here.
    allowed: Offloads,
    /// Readable when the device notifies.
    call: Event,
    /// Own buffers that have the present burst's frames, unless they are held, and own buffers that are free.
    taken: RefCell<Vec<u16>>,
    spare: RefCell<Vec<u16>>,
    /// Buffers of the frame being received, as (index, bytes).
    parts: RefCell<Vec<(u16, u32)>>,
    lending: Option<Lending>,
    /// Loans that the device has.
    loans: RefCell<Loans>,
    headers: HeaderProbe,
    /// Bytes removed before each frame, such as a tunnel's headers. The device writes them to memory of the switch, so
    /// that the rest of the frame lies where the guest wants it.
    outer: u32,
}

impl VirtioReceive {
    /// Returns a half that offers its buffers and receives frames. Prefers a guest's buffers if they are available,
    /// from the first round on; the first `outer` bytes of frames do not go there.
    pub fn new(end: QueueResources, mergeable: bool, mapped: Option<Arc<Mapped>>, outer: u32) -> VirtioReceive {
        let allowed = if mapped.is_some() { Offloads::NONE } else { offload::of_device(end.queue.config.negotiated) };
        let end = BufferedQueue::new(end);
        let (size, arena, call) = (end.queue.size(), end.arena.clone(), end.queue.call().clone());
        let capacity = usize::from(size);
        let port = VirtioReceive {
            end: RefCell::new(end),
            arena,
            // A frame in several buffers of a guest would count them in a header that the guest can change.
            mergeable: mergeable && mapped.is_none(),
            allowed,
            call,
            taken: RefCell::new((0..size).collect()),
            spare: RefCell::new(Vec::with_capacity(capacity)),
            parts: RefCell::new(Vec::with_capacity(capacity)),
            lending: mapped.map(|mapped| Lending::new(mapped, LEND_ROOM)),
            loans: RefCell::new(Loans::new(size)),
            headers: HeaderProbe::new(),
            outer,
        };
        match &port.lending {
            Some(lending) if lending.mapped().is_reachable() => {
                port.spare.swap(&port.taken);
                port.offer_reserve(&mut port.end.borrow_mut(), lending.mapped().reserve());
            }
            _ => port.recycle(),
        }
        ordering::before_asking();
        port.notify();
        port
    }

    /// Returns the next used buffer, and how many bytes the device wrote. Its id is valid: the queue reports any other
    /// as an error of the device.
    #[inline(always)]
    fn pop(end: &mut BufferedQueue<Held>, loans: &mut Loans) -> Option<(u16, Returned, u32)> {
        loop {
            let Ok(back) = end.queue.pop() else {
                end.give_up();
                return None;
            };
            let DeviceReturned { id, entry, len, .. } = back?;
            let held = std::mem::take(entry);
            if let Held::Own(index) = held {
                return Some((id, Returned::Own(index), len));
            }
            if let Some(loan) = loans.take(id) {
                let head = if let Held::Head(index) = held { Some(index) } else { None };
                let spoiled = matches!(held, Held::Spoiled);
                return Some((id, Returned::Lent(Lent { loan, head, spoiled }), len));
            }
        }
    }

    /// Like `pop`, for the switch's own buffers only: loans that come back without a guest wait for one.
    fn pop_own(&self, end: &mut BufferedQueue<Held>) -> Option<(u16, u32)> {
        loop {
            match Self::pop(end, &mut self.loans.borrow_mut())? {
                (_, Returned::Own(index), len) => return Some((index, len.min(ROOM))),
                (_, Returned::Lent(lent), _) => {
                    self.spare.borrow_mut().extend(lent.head);
                    if let Some(lending) = &self.lending {
                        lending.strand(lent.loan);
                    }
                }
            }
        }
    }

    /// Takes the next frame's buffers, as (index, bytes), if all of them are available.
    fn next(&self, end: &mut BufferedQueue<Held>, buffers: &mut Vec<(u16, u32)>) -> Option<()> {
        buffers.clear();
        buffers.push(self.pop_own(end)?);
        if self.mergeable {
            // num_buffers, the last field of the header (virtio 1.2 §5.1.6). All parts are published together.
            let header = self.arena.segment(end.buffer(buffers[0].0), NET_HEADER)?.read::<12>()?;
            for _ in 1..u16::from_le_bytes([header[10], header[11]]) {
                let Some(part) = self.pop_own(end) else {
                    // A device that promises more parts than it has published has broken the ring.
                    end.give_up();
                    return None;
                };
                buffers.push(part);
            }
        }
        Some(())
    }

    /// Adds the frame in this own buffer to `burst`, if its length is valid.
    #[inline(always)]
    fn push_one<'q>(&'q self, end: &BufferedQueue<Held>, index: u16, len: u32, burst: &mut Burst<'_, 'q>) {
        let at = end.buffer(index);
        if len >= NET_HEADER + MIN_FRAME
            && let Some(whole) = self.arena.segment(at, len)
            && let Some(header) = whole.read()
        {
            let (_, frame) = whole.split_at(NET_HEADER);
            // The device's processor wrote it, and a stage or a copy reads it when the whole burst has been received.
            prefetch(frame.as_ptr());
            // The flags, and the type of segments.
            if header[..2] == [0, 0] {
                burst.push(frame);
            } else {
                let part = (at + u64::from(NET_HEADER), frame.len());
                self.push_left(end, header, std::iter::once(part), burst);
            }
        }
    }

    /// Adds the frame in these own buffers to `burst`, if its length is valid.
    #[cold]
    fn push<'q>(&'q self, end: &BufferedQueue<Held>, buffers: &[(u16, u32)], burst: &mut Burst<'_, 'q>) {
        let mut header = NET_HEADER;
        let parts = buffers.iter().map(move |&(index, len)| {
            let skip = header.min(len);
            header -= skip;
            (end.buffer(index) + u64::from(skip), len - skip)
        });
        let parts = parts.filter(|&(_, len)| len > 0);
        let len: u32 = buffers.iter().map(|b| b.1).sum();
        if len < NET_HEADER + MIN_FRAME || len - NET_HEADER > packet::MAX_FRAME {
            return;
        }
        if let Some(header) = self.arena.segment(end.buffer(buffers[0].0), NET_HEADER).and_then(|bytes| bytes.read()) {
            self.push_left(end, header, parts, burst);
        }
        if !self.allowed.segmentation().is_none() && burst.is_full() {
            // Long messages would take all segments of the burst.
            burst.limit(0);
        }
    }

    /// Adds the frame in `parts`, as (address, length), with the work that `header` leaves on it: done, if the device must not leave any.
    #[cold]
    fn push_left<'q>(
        &'q self,
        end: &BufferedQueue<Held>,
        header: [u8; NET_HEADER as usize],
        parts: impl Iterator<Item = (u64, u32)> + Clone,
        burst: &mut Burst<'_, 'q>,
    ) {
        let segments = parts.clone().filter_map(|(at, len)| self.arena.segment(at, len));
        let mut left = Offload::NONE;
        if self.allowed.is_none() {
            if let Some(patch) = virtqueue::unfinished::by_header(header, segments.clone()) {
                unfinished::write(&patch, &self.arena, parts);
            }
        } else if header[..2] != [0, 0] {
            let mut head = [0; HEAD];
            let filled = segments.clone().fold(0, |filled, segment| filled + segment.copy_to(&mut head[filled..]));
            let len = parts.map(|(_, len)| len).sum();
            let (bytes, _) = header.split_first_chunk().expect("it is longer");
            match header::read(*bytes, self.allowed, len, &head[..filled]) {
                Ok(read) => left = read,
                Err(_) => return end.drops.add(Reason::BadOffload, 1),
            }
        }
        if burst.push_segments(segments) {
            burst.leave(left);
        }
    }

    /// Returns the number of buffers that the device has. A scattered frame takes two descriptors.
    fn offered(&self, end: &BufferedQueue<Held>) -> u16 {
        end.queue.size() - end.queue.free() - if self.outer > 0 { self.loans.borrow().len() } else { 0 }
    }

    /// Adds own buffers until `reserve` buffers are offered. Reports whether it added any.
    fn offer_reserve(&self, end: &mut BufferedQueue<Held>, reserve: u16) -> bool {
        let mut spare = self.spare.borrow_mut();
        let before = spare.len();
        while self.offered(end) < reserve
            && end.queue.free() > 0
            && let Some(index) = spare.pop()
        {
            Self::offer_own(end, index);
        }
        end.queue.publish();
        spare.len() < before
    }

    /// Offers a loan. If `outer` bytes are removed, the device fills an own buffer with the virtio header and these
    /// bytes, and continues after the header of the guest's buffer (virtio 1.2 §5.1.6.3.1, §2.6.4: in any pieces, in
    /// order). Returns the id of its chain, or the loan if no descriptor or own buffer is free.
    #[inline(always)]
    fn offer_lent(
        &self,
        end: &mut BufferedQueue<Held>,
        loans: &mut Loans,
        spare: &mut Vec<u16>,
        guest: &GuestBuffers,
        loan: Loan,
    ) -> Result<u16, Loan> {
        if !loans.takes(&loan) {
            return Err(loan);
        }
        let whole = Buffer { addr: loan.addr(), len: loan.len(), writable: true };
        let (head, added) = if self.outer == 0 {
            (None, end.queue.add(&[whole]))
        } else {
            let Some(index) = spare.pop() else { return Err(loan) };
            let first = Buffer { addr: end.buffer(index), len: NET_HEADER + self.outer, writable: true };
            let rest = Buffer { addr: whole.addr + u64::from(NET_HEADER), len: whole.len - NET_HEADER, ..whole };
            (Some(index), end.queue.add(&[first, rest]))
        };
        let Some((id, entry)) = added else {
            spare.extend(head);
            return Err(loan);
        };
        *entry = match head {
            Some(index) => Held::Head(index),
            None if self.headers.spoil(guest.ring(), &loan) => Held::Spoiled,
            None => Held::Nothing,
        };
        let is_marked = !matches!(entry, Held::Nothing);
        loans.put(id, loan, is_marked);
        Ok(id)
    }

    /// Returns where a frame lies in `lent`, of which the device wrote `written` bytes.
    #[inline(always)]
    fn landing(&self, end: &BufferedQueue<Held>, guest: &GuestBuffers, lent: &Lent, written: u32) -> Landing<'_> {
        let len = written.saturating_sub(NET_HEADER);
        let Some(index) = lent.head else {
            // A device that returns a buffer unfilled has not written a header either.
            let has_header = len > 0 && self.headers.is_written(guest.ring(), &lent.loan, lent.spoiled);
            return Landing { has_header, ..Landing::whole(len) };
        };
        let in_head = len.min(self.outer);
        let head = self.arena.segment(end.buffer(index) + u64::from(NET_HEADER), in_head);
        Landing { head, len: len - in_head, ..Landing::whole(0) }
    }

    fn offer_own(end: &mut BufferedQueue<Held>, index: u16) {
        let buffer = Buffer { addr: end.buffer(index), len: ROOM, writable: true };
        if let Some((_, entry)) = end.queue.add(&[buffer]) {
            *entry = Held::Own(index);
        }
    }
}

impl RxQueue for VirtioReceive {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let end = &mut *self.end.borrow_mut();
        if self.lending.is_some() && end.queue.free() > 0 && self.offered(end) < RESERVE {
            // There is no guest, or this worker cannot borrow from it.
            self.offer_reserve(end, RESERVE);
            ordering::before_asking();
            end.queue.notify();
        }
        let mut taken = self.taken.borrow_mut();
        let mut buffers = self.parts.borrow_mut();
        while burst.room() > 0 && taken.len() < usize::from(end.queue.size()) && self.next(end, &mut buffers).is_some()
        {
            match buffers[..] {
                [(index, len)] => self.push_one(end, index, len, burst),
                _ => self.push(end, &buffers, burst),
            }
            taken.extend(buffers.iter().map(|b| b.0));
        }
        !taken.is_empty()
    }

    fn recycle(&self) {
        let end = &mut *self.end.borrow_mut();
        let (mut taken, mut spare) = (self.taken.borrow_mut(), self.spare.borrow_mut());
        let free = usize::from(end.queue.free());
        if taken.len() + spare.len() <= free {
            taken.drain(..).chain(spare.drain(..)).for_each(|index| Self::offer_own(end, index));
        } else {
            // The device also has loans.
            spare.append(&mut taken);
            let from = spare.len() - free;
            spare.drain(from..).for_each(|index| Self::offer_own(end, index));
        }
        end.queue.publish();
    }

    fn notify(&self) {
        self.end.borrow_mut().queue.notify();
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.call.as_fd())
    }

    fn arm(&self) -> Wait {
        let end = &mut *self.end.borrow_mut();
        if self.zero_copy().is_some() {
            self.offer_reserve(end, RESERVE_ASLEEP);
            ordering::before_asking();
            end.queue.notify();
        }
        if end.queue.arm() { Wait::Ready } else { Wait::Event }
    }

    fn disarm(&self) {
        self.end.borrow_mut().queue.disarm();
    }

    #[inline]
    fn zero_copy(&self) -> Option<&dyn ZeroCopyRx> {
        self.lending.as_ref().filter(|lending| lending.mapped().is_reachable()).map(|_| self as &dyn ZeroCopyRx)
    }

    fn holds(&self) -> Option<&dyn HoldBursts> {
        Some(self)
    }
}

impl HoldBursts for VirtioReceive {
    fn memories(&self) -> Vec<Arc<dyn packet::MappedMemory>> {
        let guest = self.lending.iter().filter_map(|lending| lending.mapped().memory());
        guest.map(|memory| memory as _).chain([self.arena.clone() as _]).collect()
    }

    fn buffers(&self) -> usize {
        self.end.borrow().queue.size().into()
    }

    fn hold(&self, held: &mut Vec<u16>) {
        held.append(&mut self.taken.borrow_mut());
    }

    fn give_back(&self, held: &[u16]) {
        debug_assert!(held.iter().all(|&index| usize::from(index) < self.buffers()));
        self.spare.borrow_mut().extend_from_slice(held);
    }
}
