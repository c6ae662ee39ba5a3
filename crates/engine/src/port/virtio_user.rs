//! virtio-user ports, driver role: the switch connects to somebody else's vhost-user backend, as a guest would.

use super::lend::{COPY_BREAK, LEND_ROOM, Lend, Lending, Mapped, RESERVE, RESERVE_ASLEEP};
use super::vhost_user::VhostTransmit;
use super::{Receive, Sent, Transmit, Wait};
use crate::drops::Reason;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use virtqueue::device::Loan;
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::Arena;
use virtqueue::{Burst, Frame, Frames, MIN_FRAME, NET_HEADER, ordering};

/// Room of a buffer: the usual size of a DPDK packet buffer, header included.
const ROOM: u32 = 2048;

/// Bytes from one buffer to the next: an odd number of cache lines, so that frames spread over all sets of a cache.
pub const STRIDE: u32 = 33 * LINE;

/// Where in its stride a buffer begins: the frame behind the virtio header begins on a cache line.
const LEAD: u32 = LINE - NET_HEADER;

/// Bytes of a cache line.
const LINE: u32 = 64;

/// Buffers before its turn that a buffer's first line is asked for.
const AHEAD: usize = 12;

/// Longest frame that can be sent: one chain of so many buffers.
const MAX_CHAIN: u32 = 8;

/// One direction of a queue pair, as the session set it up.
pub struct End {
    /// The ring.
    pub queue: Queue,
    /// Guest address of its buffers, [`STRIDE`] bytes for each descriptor.
    pub buffers: u64,
    /// Descriptors.
    pub size: u16,
    /// Kicks the device.
    pub kick: OwnedFd,
    /// Memory of the ring and the buffers.
    pub arena: Arc<Arena>,
    /// The device broke the ring.
    pub broken: Arc<AtomicBool>,
}

impl End {
    fn buffer(&self, index: u16) -> u64 {
        self.buffers + u64::from(index) * u64::from(STRIDE) + u64::from(LEAD)
    }

    #[cold]
    fn give_up(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    fn kick(queue: &mut Queue, kick: &OwnedFd) {
        if queue.wants_kick() {
            // A full counter means that the device has a kick waiting; anything else ends with the session.
            let _ = rustix::io::write(kick, &1u64.to_ne_bytes());
        }
    }
}

/// What the device has a buffer of.
enum Held {
    Nothing,
    /// The switch's own, by index.
    Own(u16),
    /// A guest's.
    Lent(Loan),
}

/// Frames from the device.
pub struct VirtioReceive {
    end: RefCell<End>,
    /// The arena again, to lend frames out of it while the ring is being changed.
    arena: Arc<Arena>,
    mergeable: bool,
    /// Readable when the device notifies.
    call: OwnedFd,
    /// What the device has, by the id of its chain.
    held: RefCell<Box<[Held]>>,
    /// Own buffers that the present burst's frames are in, and those that nobody has.
    taken: RefCell<Vec<u16>>,
    spare: RefCell<Vec<u16>>,
    /// The buffers of the frame that is being taken, as (index, bytes).
    parts: RefCell<Vec<(u16, u32)>>,
    lending: Option<Lending>,
}

impl VirtioReceive {
    /// Offers its buffers and takes frames. If a guest's buffers can be had, those are preferred, from the first round on.
    pub fn new(end: End, call: OwnedFd, mergeable: bool, mapped: Option<Arc<Mapped>>) -> VirtioReceive {
        let size = end.size;
        let arena = end.arena.clone();
        let capacity = usize::from(size);
        let port = VirtioReceive {
            end: RefCell::new(end),
            arena,
            // A frame in several buffers of a guest would name them in a header that the guest can change.
            mergeable: mergeable && mapped.is_none(),
            call,
            held: RefCell::new((0..size).map(|_| Held::Nothing).collect()),
            taken: RefCell::new((0..size).collect()),
            spare: RefCell::new(Vec::with_capacity(capacity)),
            parts: RefCell::default(),
            lending: mapped.map(|mapped| Lending::new(mapped, LEND_ROOM, capacity)),
        };
        port.end.borrow_mut().queue.set_interrupts(false);
        match &port.lending {
            Some(lending) if lending.mapped().is_reachable() => {
                port.spare.swap(&port.taken);
                port.offer_reserve(&mut port.end.borrow_mut(), lending.mapped().reserve());
            }
            _ => port.recycle(),
        }
        port.notify();
        port
    }

    /// The next buffer that the device has used, and how many bytes it wrote.
    #[inline(always)]
    fn pop(&self, end: &mut End) -> Option<(u16, Held, u32)> {
        match end.queue.pop_used() {
            Ok(used) => used.map(|u| {
                (u.id, std::mem::replace(&mut self.held.borrow_mut()[usize::from(u.id)], Held::Nothing), u.len)
            }),
            Err(_) => {
                end.give_up();
                None
            }
        }
    }

    /// As `pop`, of the switch's own buffers only: loans that come back without a guest wait for one.
    fn pop_own(&self, end: &mut End) -> Option<(u16, u32)> {
        loop {
            match self.pop(end)? {
                (_, Held::Own(index), len) => return Some((index, len.min(ROOM))),
                (_, Held::Lent(loan), _) => {
                    if let Some(lending) = &self.lending {
                        lending.strand(loan);
                    }
                }
                (_, Held::Nothing, _) => {}
            }
        }
    }

    /// The next frame's buffers, as (index, bytes), if all of them are there.
    fn next(&self, end: &mut End, buffers: &mut Vec<(u16, u32)>) -> Option<()> {
        buffers.clear();
        buffers.push(self.pop_own(end)?);
        if self.mergeable {
            // num_buffers, the last field of the header (virtio 1.2 §5.1.6). All parts are published together.
            let header = self.arena.segment(end.buffer(buffers[0].0), NET_HEADER)?.read::<12>()?;
            for _ in 1..u16::from_le_bytes([header[10], header[11]]) {
                buffers.push(self.pop_own(end)?);
            }
        }
        Some(())
    }

    /// Adds the frame in this own buffer to `burst`, if it is one.
    #[inline(always)]
    fn push_one<'q>(&'q self, end: &End, index: u16, len: u32, burst: &mut Burst<'_, 'q>) {
        let at = end.buffer(index) + u64::from(NET_HEADER);
        if len >= NET_HEADER + MIN_FRAME
            && let Some(frame) = self.arena.segment(at, len - NET_HEADER)
        {
            burst.push(frame);
        }
    }

    /// Adds the frame in these own buffers to `burst`, if it is one.
    #[cold]
    fn push<'q>(&'q self, end: &End, buffers: &[(u16, u32)], burst: &mut Burst<'_, 'q>) {
        let mut header = NET_HEADER;
        let segments = buffers.iter().filter_map(|&(index, len)| {
            let skip = header.min(len);
            header -= skip;
            let at = end.buffer(index) + u64::from(skip);
            self.arena.segment(at, len - skip).filter(|s| !s.is_empty())
        });
        let len: u32 = buffers.iter().map(|b| b.1).sum();
        if len >= NET_HEADER + MIN_FRAME && len - NET_HEADER <= virtqueue::MAX_FRAME {
            let _ = burst.push_segments(segments);
        }
    }

    /// Adds own buffers until so many are offered.
    fn offer_reserve(&self, end: &mut End, reserve: u16) {
        let mut spare = self.spare.borrow_mut();
        while end.size - end.queue.free() < reserve.min(end.size)
            && let Some(index) = spare.pop()
        {
            self.offer_own(end, index);
        }
        end.queue.publish();
    }

    fn offer_own(&self, end: &mut End, index: u16) {
        let buffer = Buffer { addr: end.buffer(index), len: ROOM, writable: true };
        if let Some(id) = end.queue.add(&[buffer]) {
            self.held.borrow_mut()[usize::from(id)] = Held::Own(index);
        }
    }
}

impl Receive for VirtioReceive {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let end = &mut *self.end.borrow_mut();
        if self.lending.is_some() && end.size - end.queue.free() < RESERVE.min(end.size) {
            // There is no guest, or none that this worker can borrow from.
            self.offer_reserve(end, RESERVE);
            End::kick(&mut end.queue, &end.kick);
        }
        let mut taken = self.taken.borrow_mut();
        let mut buffers = self.parts.borrow_mut();
        while burst.room() > 0 && taken.len() < usize::from(end.size) && self.next(end, &mut buffers).is_some() {
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
            taken.drain(..).chain(spare.drain(..)).for_each(|index| self.offer_own(end, index));
        } else {
            // The device has loans, too.
            spare.append(&mut taken);
            let from = spare.len() - free;
            spare.drain(from..).for_each(|index| self.offer_own(end, index));
        }
        end.queue.publish();
    }

    fn notify(&self) {
        let end = &mut *self.end.borrow_mut();
        End::kick(&mut end.queue, &end.kick);
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.call.as_fd())
    }

    fn arm(&self) -> Wait {
        let end = &mut *self.end.borrow_mut();
        if self.lends().is_some() {
            self.offer_reserve(end, RESERVE_ASLEEP);
            ordering::before_asking();
            End::kick(&mut end.queue, &end.kick);
        }
        end.queue.set_interrupts(true);
        ordering::before_asking();
        if end.queue.has_used() { Wait::Ready } else { Wait::Event }
    }

    fn disarm(&self) {
        self.end.borrow_mut().queue.set_interrupts(false);
    }

    #[inline]
    fn lends(&self) -> Option<&dyn Lend> {
        self.lending.as_ref().filter(|lending| lending.mapped().is_reachable()).map(|_| self as &dyn Lend)
    }
}

impl Lend for VirtioReceive {
    fn receive_into<'q>(&'q self, guest: &'q VhostTransmit, burst: &mut Burst<'_, 'q>) -> bool {
        let Some(lending) = &self.lending else { return false };
        let end = &mut *self.end.borrow_mut();
        let mut any = false;
        let (mut in_place, mut copied) = (0, 0);
        while burst.room() > 0
            && let Some((id, held, len)) = self.pop(end)
        {
            any = true;
            match held {
                Held::Lent(loan) => {
                    let len = len.saturating_sub(NET_HEADER);
                    in_place += u64::from(lending.filled((id.into(), loan), len, guest, burst));
                }
                Held::Own(index) => {
                    copied += 1;
                    self.push_one(end, index, len.min(ROOM), burst);
                    self.taken.borrow_mut().push(index);
                }
                Held::Nothing => {}
            }
        }
        if any {
            lending.mapped().in_place.add(in_place);
            lending.mapped().copied.add(copied);
        }
        any
    }

    fn relend(&self, guest: &VhostTransmit) {
        let Some(lending) = &self.lending else { return };
        let end = &mut *self.end.borrow_mut();
        self.spare.borrow_mut().append(&mut self.taken.borrow_mut());
        let mut held = self.held.borrow_mut();
        let free = end.queue.free();
        let own_out = self.spare.borrow().len() < usize::from(end.size);
        lending.relend(guest, free.into(), own_out, |loan| {
            let buffer = Buffer { addr: loan.addr(), len: loan.len(), writable: true };
            let id = end.queue.add(&[buffer]).expect("there is a free descriptor");
            held[usize::from(id)] = Held::Lent(loan);
            Ok(id.into())
        });
        drop(held);
        self.offer_reserve(end, lending.mapped().reserve());
        // What is neither free nor the switch's own is the guest's.
        let on_loan = (self.spare.borrow().len() as u64).saturating_sub(end.queue.free().into());
        lending.mapped().on_loan.set(on_loan);
    }

    fn recall(&self, guest: &VhostTransmit) -> u64 {
        let Some(lending) = &self.lending else { return 0 };
        let end = &mut *self.end.borrow_mut();
        let mut lost = 0;
        while let Some((_, held, _)) = self.pop(end) {
            lost += 1;
            if let Held::Lent(loan) = held {
                lending.strand(loan);
            }
        }
        let mut held = self.held.borrow_mut();
        let lent = held.iter_mut().filter_map(|held| match std::mem::replace(held, Held::Nothing) {
            Held::Lent(loan) => Some(loan),
            _ => None,
        });
        lending.recall(guest, lent);
        lost
    }
}

/// Frames to the device.
pub struct VirtioTransmit {
    end: RefCell<End>,
    /// Buffers that the device does not have, in the order in which it gave them back.
    free: RefCell<VecDeque<u16>>,
    /// What the device has, by the id of its chain.
    chains: RefCell<Box<[Chain]>>,
    mapped: Option<Arc<Mapped>>,
    /// Chains of the guest that the device is done with.
    returned: RefCell<Vec<u16>>,
    /// Chains of the guest that the device has.
    kept: Cell<u16>,
}

/// What a frame lies in.
#[derive(Clone, Copy)]
enum Chain {
    /// Buffers of the switch.
    Own { indices: [u16; MAX_CHAIN as usize], count: u16 },
    /// The guest's memory, in its chain of this id.
    Kept(u16),
}

impl Chain {
    const NONE: Chain = Chain::Own { indices: [0; MAX_CHAIN as usize], count: 0 };
}

impl VirtioTransmit {
    /// Copies frames into its own buffers and sends them; those of a guest from where they lie if it is `mapped`.
    pub fn new(end: End, mapped: Option<Arc<Mapped>>) -> VirtioTransmit {
        let size = end.size;
        let port = VirtioTransmit {
            end: RefCell::new(end),
            free: RefCell::new((0..size).collect()),
            chains: RefCell::new(vec![Chain::NONE; size.into()].into()),
            mapped,
            returned: RefCell::new(Vec::with_capacity(size.into())),
            kept: Cell::new(0),
        };
        port.end.borrow_mut().queue.set_interrupts(false);
        port
    }

    /// Takes back what the device is done with.
    #[inline(always)]
    fn reclaim(&self, end: &mut End, free: &mut VecDeque<u16>, chains: &[Chain]) {
        loop {
            match end.queue.pop_used() {
                Ok(Some(used)) => match &chains[usize::from(used.id)] {
                    Chain::Own { indices, count } => free.extend(&indices[..usize::from(*count)]),
                    Chain::Kept(id) => {
                        self.returned.borrow_mut().push(*id);
                        self.kept.set(self.kept.get() - 1);
                    }
                },
                Ok(None) => return,
                Err(_) => return end.give_up(),
            }
        }
    }

    /// Copies a frame that lies in several places, as an aggregate does, into one buffer, which is there.
    #[inline(never)]
    fn gather<'b>(
        end: &mut End,
        free: &mut VecDeque<u16>,
        frames: &Frames<'b>,
        frame: &Frame<'b>,
    ) -> Option<(u16, Chain)> {
        let index = free.pop_front()?;
        let addr = end.buffer(index);
        end.arena.gather(addr + u64::from(NET_HEADER), frames.segments(frame));
        let id = end.queue.add(&[Buffer { addr, len: NET_HEADER + frame.len(), writable: false }])?;
        Some((id, Chain::Own { indices: [index, 0, 0, 0, 0, 0, 0, 0], count: 1 }))
    }

    /// Copies a frame into as many buffers as it takes, which are there.
    #[cold]
    fn scatter<'b>(
        end: &mut End,
        free: &mut VecDeque<u16>,
        frames: &Frames<'b>,
        frame: &Frame<'b>,
    ) -> Option<(u16, Chain)> {
        let (mut indices, mut count) = ([0; MAX_CHAIN as usize], 0);
        let mut buffers = [Buffer { addr: 0, len: 0, writable: false }; MAX_CHAIN as usize];
        let header: &[u8] = &[0; NET_HEADER as usize];
        let mut source = std::iter::once(header.into()).chain(frames.segments(frame));
        let mut rest = source.next();
        while rest.is_some() {
            let index = free.pop_front()?;
            let addr = end.buffer(index);
            let mut filled = 0;
            while filled < ROOM
                && let Some(segment) = rest
            {
                let (now, later) = segment.split_at(ROOM - filled);
                filled += end.arena.gather(addr + u64::from(filled), std::iter::once(now)).unwrap_or(0);
                rest = if later.is_empty() { source.next() } else { Some(later) };
            }
            buffers[usize::from(count)] = Buffer { addr, len: filled, writable: false };
            indices[usize::from(count)] = index;
            count += 1;
        }
        let id = end.queue.add(&buffers[..usize::from(count)])?;
        Some((id, Chain::Own { indices, count }))
    }
}

impl Transmit for VirtioTransmit {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        let end = &mut *self.end.borrow_mut();
        let (mut free, mut chains) = (self.free.borrow_mut(), self.chains.borrow_mut());
        let mut sent = Sent { rest: Some(Reason::NoBuffers), ..Sent::default() };
        let keeper = self.mapped.as_ref().map_or(0, |mapped| mapped.keeper());
        if keeper != 0 || free.len() < 2 * frames.len() {
            self.reclaim(end, &mut free, &chains);
        }
        // However slow the device is, the guest keeps some chains to send to others.
        let most_kept = end.size - end.size / 4;
        let mut kept = 0;
        for frame in frames.as_slice() {
            if keeper != 0
                && frame.len() >= COPY_BREAK
                && self.kept.get() < most_kept
                && end.queue.free() > 0
                && let Some(chain) = frames.keep(frame, keeper)
            {
                // The guest's own header goes before it: no offloads were offered to the one or asked of the other.
                let addr = frame.first().as_ptr().addr() as u64 - u64::from(NET_HEADER);
                let buffer = Buffer { addr, len: NET_HEADER + frame.len(), writable: false };
                let id = end.queue.add(&[buffer]).expect("there is a free descriptor");
                chains[usize::from(id)] = Chain::Kept(chain);
                self.kept.set(self.kept.get() + 1);
                kept += 1;
                sent.frames += 1;
                sent.bytes += u64::from(frame.len());
                continue;
            }
            let wanted = (frame.len() + NET_HEADER).div_ceil(ROOM);
            if wanted > MAX_CHAIN.min(end.size.into()) {
                sent.too_long += 1;
                continue;
            }
            if free.len() < wanted as usize || end.queue.free() < wanted as u16 {
                break;
            }
            let added = if wanted == 1 && frame.is_contiguous() {
                if let Some(&later) = free.get(AHEAD) {
                    end.arena.prefetch_write(end.buffer(later) + u64::from(NET_HEADER));
                }
                let index = free.pop_front().unwrap_or_default();
                let addr = end.buffer(index);
                // The header in front of the frame is all zeros, as it has been since the start: no offloads.
                let written = end.arena.gather(addr + u64::from(NET_HEADER), std::iter::once(frame.first()));
                debug_assert_eq!(written, Some(frame.len()), "buffers lie in the arena");
                let id = end.queue.add(&[Buffer { addr, len: NET_HEADER + frame.len(), writable: false }]);
                id.map(|id| (id, Chain::Own { indices: [index, 0, 0, 0, 0, 0, 0, 0], count: 1 }))
            } else if wanted == 1 {
                Self::gather(end, &mut free, &frames, frame)
            } else {
                Self::scatter(end, &mut free, &frames, frame)
            };
            let Some((id, chain)) = added else { break };
            chains[usize::from(id)] = chain;
            sent.frames += 1;
            sent.bytes += u64::from(frame.len());
        }
        end.queue.publish();
        if let Some(mapped) = &self.mapped {
            mapped.sent_in_place.add(kept);
            mapped.sent_copied.add(u64::from(sent.frames) - kept);
        }
        sent
    }

    fn returned(&self, release: &mut dyn FnMut(u16)) {
        if self.kept.get() > 0 {
            self.reclaim(&mut self.end.borrow_mut(), &mut self.free.borrow_mut(), &self.chains.borrow());
        }
        self.returned.borrow_mut().drain(..).for_each(release);
    }

    fn keeps(&self) -> bool {
        self.kept.get() > 0
    }

    fn recall(&self, release: &mut dyn FnMut(u16)) {
        self.returned(release);
        for chain in &mut self.chains.borrow_mut()[..] {
            if let Chain::Kept(id) = std::mem::replace(chain, Chain::NONE) {
                release(id);
            }
        }
        self.kept.set(0);
    }

    fn notify(&self) {
        let end = &mut *self.end.borrow_mut();
        End::kick(&mut end.queue, &end.kick);
    }
}
