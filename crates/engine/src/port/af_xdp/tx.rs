//! The transmit half of an AF_XDP queue.

use super::in_flight::InFlight;
use super::rings::TxRings;
use super::splice::{SendReach, Sender};
use super::{Stuck, UmemView};
use crate::drops::Reason;
use crate::port::pool::Pool;
use crate::port::zero_copy::{Direction, HeaderTest, Mapped, Timing, ZeroCopyTx};
use crate::port::{LifeCycle, Sent, TxQueue};
use packet::{BurstStorage, Frame, Frames, Judged, Kind, Segment, Taken, Unjudged};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use virtqueue::device::{Chains, Dequeue, Seen, SendTerms, Spliced, Unseen};
use xsk::{Completion, Descriptor, Sending, Tx};

/// Maximum wake-ups in a row: the kernel may take only a part of the frames at each.
const WAKE_UPS: usize = 4;

/// Transmit half: frames to the interface.
pub struct XdpTransmit {
    /// `None` once stopped.
    socket: Option<RefCell<TxRings>>,
    view: UmemView,
    zero_copy: bool,
    pool: Pool,
    /// Maximum length of a frame on the interface.
    limit: u32,
    /// Whether a frame may lie in several chunks.
    multi_buffer: bool,
    /// Chunks that the kernel does not have.
    free: RefCell<Vec<u16>>,
    /// Chains of the guest that the kernel has.
    kept: RefCell<Kept>,
    /// Chains of the guest that the kernel has returned.
    returned: RefCell<Vec<u16>>,
    /// Descriptors to be pushed to the kernel.
    descriptors: RefCell<Vec<Descriptor>>,
    /// Whether the interface refused frames at the last attempt.
    down: Cell<bool>,
    mapped: Option<Arc<Mapped>>,
    timing: Option<Timing>,
    stuck: Arc<Stuck>,
}

/// Chains of the guest that the kernel has.
struct Kept {
    /// Addresses of their frames.
    addresses: InFlight,
    /// By the ids of the addresses.
    chains: Chains,
}

impl Kept {
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }
}

impl XdpTransmit {
    /// Returns a half that copies frames of up to `limit` bytes into its chunks; if it is `mapped`, it sends a guest's
    /// frames without a copy.
    pub(super) fn new(
        rings: TxRings,
        view: UmemView,
        pool: Pool,
        limit: u32,
        mapped: Option<Arc<Mapped>>,
        stuck: Arc<Stuck>,
    ) -> XdpTransmit {
        let (count, size) = (pool.count(), usize::from(pool.count()));
        XdpTransmit {
            zero_copy: rings.tx.bound().zero_copy,
            multi_buffer: rings.tx.bound().multi_buffer,
            socket: Some(RefCell::new(rings)),
            view,
            limit,
            free: RefCell::new((0..pool.count()).rev().collect()),
            kept: RefCell::new(Kept { addresses: InFlight::new(count), chains: Chains::new(count) }),
            returned: RefCell::new(Vec::with_capacity(size)),
            descriptors: RefCell::new(Vec::with_capacity(size)),
            down: Cell::new(false),
            pool,
            timing: mapped.clone().map(|mapped| Timing::new(mapped, Direction::FromGuest)),
            mapped,
            stuck,
        }
    }

    /// Takes back frames that the kernel has sent.
    fn reclaim(&self, completion: &mut Completion, free: &mut Vec<u16>) {
        let Kept { addresses, chains } = &mut *self.kept.borrow_mut();
        for address in completion.burst(u32::MAX) {
            match self.pool.index(address) {
                Some(index) => free.push(index),
                None => self.returned.borrow_mut().extend(addresses.take(address).and_then(|id| chains.take(id))),
            }
        }
    }

    /// Returns what tells where the kernel finds the guest's frames.
    #[inline(always)]
    fn reach(&self) -> SendReach<'_> {
        SendReach { view: &self.view, limit: self.limit, zero_copy: self.zero_copy }
    }

    /// Returns the maximum number of chains kept. However slow the interface is, the guest keeps some for other destinations.
    #[inline(always)]
    fn most_kept(&self) -> u16 {
        self.pool.count() - self.pool.count() / 4
    }

    /// Keeps the chain of a frame that can be sent without a copy. Returns the frame's address and the chain.
    #[inline(always)]
    fn keep(&self, frames: &Frames<'_>, frame: &Frame<'_>, from: u64) -> Option<(u64, u16)> {
        let shortest = self.mapped.as_ref().map_or(u32::MAX, |mapped| mapped.threshold(Direction::FromGuest));
        if from == 0 || frame.len() < shortest || !frame.is_contiguous() {
            return None;
        }
        let address = self.reach().frame(frame.first().as_ptr().addr() as u64, frame.len())?;
        frames.keep(frame, from).map(|chain| (address, chain))
    }

    /// Copies a frame into as many chunks as it needs, which must be available.
    #[inline(always)]
    fn copy<'b>(
        &self,
        len: u32,
        segments: impl Iterator<Item = Segment<'b>> + Clone,
        free: &mut Vec<u16>,
        out: &mut Vec<Descriptor>,
    ) {
        if len > self.pool.size() {
            return self.pool.scatter(segments, free, |index, len, more| {
                let part = Descriptor::new(self.pool.address(index), len);
                out.push(if more { part.continued() } else { part });
            });
        }
        let index = free.pop().expect("there is one for every frame that is copied");
        let written = self.pool.arena.gather(self.pool.place(index), segments);
        debug_assert_eq!(written, Some(len), "chunks lie in the arena");
        out.push(Descriptor::new(self.pool.address(index), len));
    }

    /// Makes the kernel send pushed frames. Returns false if the interface is down.
    fn wake(&self, tx: &Tx) -> bool {
        let mut left = Ok(Sending::Done);
        for _ in 0..WAKE_UPS {
            left = if tx.needs_wakeup() { tx.wake() } else { Ok(Sending::Done) };
            if !matches!(left, Ok(Sending::More)) {
                break;
            }
        }
        self.stuck.set(matches!(left, Ok(Sending::More)));
        self.down.set(left.is_err());
        left.is_ok()
    }

    /// Sends frames, with their `taken` bytes; without a copy, if their chains can be kept.
    #[inline(always)]
    fn send<'b>(&self, frames: Frames<'b>, taken: impl Taken<'b>) -> Sent {
        let Some(socket) = &self.socket else { return Sent::none(Reason::Down) };
        let TxRings { tx, completion } = &mut *socket.borrow_mut();
        if self.down.get() && !self.wake(tx) {
            return Sent::none(Reason::Down);
        }
        let mut free = self.free.borrow_mut();
        self.reclaim(completion, &mut free);
        let mut out = self.descriptors.borrow_mut();
        let Kept { addresses, chains } = &mut *self.kept.borrow_mut();
        let mut room = tx.room();
        let from = self.mapped.as_ref().map_or(0, |mapped| mapped.in_place_from());
        let most_kept = self.most_kept();
        let mut sent = Sent { rest: Some(Reason::Busy), ..Sent::default() };
        let mut in_place = 0;
        for (index, frame) in frames.as_slice().iter().enumerate() {
            let parts = if self.multi_buffer { frame.len().div_ceil(self.pool.size()) } else { 1 };
            if frame.len() > self.limit || frame.len() > parts * self.pool.size() {
                sent.too_long += 1;
                continue;
            }
            if room < parts {
                break;
            }
            if chains.len() < most_kept
                && let Some(id) = addresses.free_id()
                && let Some((address, chain)) = self.keep(&frames, frame, from)
            {
                out.push(Descriptor::new(address, frame.len()));
                addresses.push(address);
                chains.put(id, chain);
                in_place += 1;
                room -= 1;
            } else if free.len() < parts as usize {
                break;
            } else {
                self.copy(frame.len(), taken.segments(&frames, index), &mut free, &mut out);
                room -= parts;
            }
            sent.frames += 1;
            sent.bytes += u64::from(frame.len());
        }
        let pushed = tx.push(&out);
        debug_assert_eq!(pushed, out.len(), "there was room");
        out.clear();
        if let Some(mapped) = &self.mapped {
            mapped.sent_in_place.add(in_place);
            mapped.sent_copied.add(u64::from(sent.frames) - in_place);
        }
        sent
    }
}

impl TxQueue for XdpTransmit {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        self.send(frames, Unjudged)
    }

    fn transmit_judged(&self, judged: Judged<'_>, _: &mut BurstStorage) -> Sent {
        let frames = judged.frames();
        match judged.taken() {
            Kind::Headers(taken) => self.send(frames, taken),
            Kind::Heads(taken) => self.send(frames, taken),
        }
    }

    fn notify(&self) {
        if let Some(socket) = &self.socket {
            self.wake(&socket.borrow().tx);
        }
    }

    #[inline]
    fn zero_copy(&self) -> Option<&dyn ZeroCopyTx> {
        Some(self)
    }

    fn life_cycle(&mut self) -> Option<&mut dyn LifeCycle> {
        Some(self)
    }
}

impl ZeroCopyTx for XdpTransmit {
    fn returned(&self, release: &mut dyn FnMut(&[u16])) {
        if let Some(socket) = &self.socket
            && !self.kept.borrow().is_empty()
        {
            self.reclaim(&mut socket.borrow_mut().completion, &mut self.free.borrow_mut());
        }
        let returned = &mut *self.returned.borrow_mut();
        if !returned.is_empty() {
            release(returned);
            returned.clear();
        }
    }

    #[inline]
    fn splice(&self, from: &Dequeue, most: u16, test: Option<&mut HeaderTest<'_>>) -> Spliced {
        let (Some(socket), Some(mapped)) = (&self.socket, &self.mapped) else { return Spliced::NOTHING };
        let id = mapped.in_place_from();
        if id == 0 || id != from.id() || self.down.get() || !self.returned.borrow().is_empty() {
            return Spliced::NOTHING;
        }
        let rings = &mut *socket.borrow_mut();
        let Kept { addresses, chains } = &mut *self.kept.borrow_mut();
        let free = &mut self.free.borrow_mut();
        let mut sender = Sender { rings, addresses, reach: self.reach(), pool: &self.pool, free };
        let terms = SendTerms { most, shortest: mapped.threshold(Direction::FromGuest), kept: self.most_kept() };
        let done = match test {
            None => from.splice_with(&mut sender, chains, terms, Unseen),
            Some(test) => from.splice_with(&mut sender, chains, terms, Seen::by(test)),
        };
        mapped.sent_in_place.add(done.frames.into());
        done
    }

    fn timing(&self) -> Option<&Timing> {
        self.timing.as_ref()
    }

    fn keeps(&self) -> bool {
        !self.kept.borrow().is_empty()
    }

    fn keeps_from(&self) -> u32 {
        self.mapped.as_ref().map_or(u32::MAX, |mapped| mapped.keeps_from())
    }

    fn recall(&self, release: &mut dyn FnMut(&[u16])) {
        debug_assert!(self.socket.is_none(), "the kernel may read them still");
        let mut ids = std::mem::take(&mut *self.returned.borrow_mut());
        let Kept { addresses, chains } = &mut *self.kept.borrow_mut();
        addresses.clear();
        ids.extend(chains.drain());
        release(&ids);
    }
}

impl LifeCycle for XdpTransmit {
    fn stop(&mut self) -> u64 {
        self.socket = None;
        0
    }
}
