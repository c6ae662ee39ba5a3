//! The transmit half of a DPDK queue.

use super::left::{self, Messages};
use super::shared::{Reaches, SharedMemory};
use super::splice::Sender;
use super::transmission::Transmission;
use super::{Home, OWN, chunk};
use crate::drops::Reason;
use crate::port::pool::Pool;
use crate::port::zero_copy::{Direction, HeaderTest, Mapped, Timing, ZeroCopyTx};
use crate::port::{LifeCycle, Sent, TxQueue};
use ::dpdk::{ToSend, Work as Told};
use packet::offload::{Offloads, Work};
use packet::{BurstStorage, Frame, Frames, HEAD, Judged, Kind, MAX_BURST, Segment, Taken, Unjudged};
use std::cell::RefCell;
use std::sync::Arc;
use virtqueue::NET_HEADER;
use virtqueue::device::{Chains, Dequeue, Seen, SendTerms, Spliced, Unseen};
use virtqueue::driver::Reach;

/// Transmit half: frames to a device.
pub struct DpdkTransmit {
    /// `None` once stopped.
    transmission: RefCell<Option<Box<Transmission>>>,
    home: Home<Transmission>,
    pool: Pool,
    limits: Limits,
    /// Limits of the messages that the device cuts.
    messages: Messages,
    /// Chains of the guest that the device has, by ids.
    kept: RefCell<Chains>,
    /// Chains of the guest that the device has returned.
    returned: RefCell<Vec<u16>>,
    /// Frames to be sent.
    out: RefCell<Vec<ToSend>>,
    /// The work of those that leave some.
    works: RefCell<Vec<Told>>,
    /// Memories of guests that the device reaches.
    reached: Arc<[Arc<SharedMemory>]>,
    mapped: Option<Arc<Mapped>>,
    timing: Option<Timing>,
}

/// What a device sends.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Maximum length of a frame on the link.
    pub(super) longest: u32,
    /// Whether a frame may lie in several chunks.
    pub(super) chains: bool,
    /// Whether frames of a guest are sent from its memory: the device returns them soon.
    pub(super) in_place: bool,
    /// Work on frames that the device does.
    pub(super) offloads: Offloads,
}

/// Why a frame that leaves work does not go.
enum Stays {
    Busy,
    TooLong,
    /// A guest has changed its headers since they were looked at.
    Changed,
}

impl DpdkTransmit {
    /// Returns a half that copies frames into its chunks, of the queue in its `home`; if it is `mapped`, it sends a guest's frames without a
    /// copy, if its `limits` allow that.
    pub(super) fn new(
        home: Home<Transmission>,
        transmission: Box<Transmission>,
        pool: Pool,
        limits: Limits,
        reached: Arc<[Arc<SharedMemory>]>,
        mapped: Option<Arc<Mapped>>,
    ) -> DpdkTransmit {
        let most = transmission.most;
        let longest = pool.size().saturating_mul(transmission.queue.pieces() as u32);
        let messages = Messages { longest, segment: limits.longest };
        let all = usize::from(pool.count()) + usize::from(most);
        DpdkTransmit {
            transmission: RefCell::new(Some(transmission)),
            home,
            messages,
            pool,
            limits,
            kept: RefCell::new(Chains::new(most)),
            returned: RefCell::new(Vec::with_capacity(most.into())),
            out: RefCell::new(Vec::with_capacity(all)),
            works: RefCell::new(Vec::with_capacity(MAX_BURST)),
            reached,
            timing: mapped.clone().map(|mapped| Timing::new(mapped, Direction::FromGuest)),
            mapped,
        }
    }

    /// Takes back what the device has sent.
    #[inline(always)]
    fn reclaim(&self, transmission: &mut Transmission) {
        while let Some(id) = transmission.first_done() {
            if let Some(id) = transmission.take_back(id) {
                self.returned.borrow_mut().extend(self.kept.borrow_mut().take(id));
            }
        }
    }

    /// Returns where the device reaches frames of guests, which begin this number of bytes after their buffers do.
    #[inline(always)]
    fn reach(&self, skip: u32) -> Reaches<'_> {
        Reaches { memories: &self.reached, skip, room: 0, longest: self.limits.longest + skip }
    }

    /// Returns the number of the guest's queue whose frames are sent without a copy; else zero.
    #[inline(always)]
    fn in_place_from(&self) -> u64 {
        self.mapped.as_ref().filter(|_| self.limits.in_place).map_or(0, |mapped| mapped.in_place_from())
    }

    /// Keeps the chain of a frame that can be sent without a copy. Returns the frame's address and the chain.
    #[inline(always)]
    fn keep(&self, frames: &Frames<'_>, frame: &Frame<'_>, from: u64) -> Option<(u64, u16)> {
        let shortest = self.mapped.as_ref().map_or(u32::MAX, |mapped| mapped.threshold(Direction::FromGuest));
        if from == 0 || frame.len() < shortest || !frame.is_contiguous() {
            return None;
        }
        let address = self.reach(0).address(frame.first().as_ptr().addr() as u64, frame.len())?;
        frames.keep(frame, from).map(|chain| (address, chain))
    }

    /// Copies a frame into as many chunks as it needs, which must be available.
    #[inline(always)]
    fn copy<'b>(
        &self,
        len: u32,
        segments: impl Iterator<Item = Segment<'b>> + Clone,
        free: &mut Vec<u16>,
        out: &mut Vec<ToSend>,
    ) {
        if len > self.pool.size() {
            return self.pool.scatter(segments, free, |index, len, more| {
                let part = self.own(index, len);
                out.push(if more { part.and_more() } else { part });
            });
        }
        let index = free.pop().expect("there is one for every frame that is copied");
        let written = self.pool.arena.gather(self.pool.place(index), segments);
        debug_assert_eq!(written, Some(len), "chunks lie in the arena");
        out.push(self.own(index, len));
    }

    /// Copies a frame that leaves work, as `copy` does, and adds the work as the device is told of it. Its headers are looked at in the
    /// copy, which no guest changes.
    #[cold]
    fn copy_left<'b>(
        &self,
        frame: &Frame<'b>,
        segments: impl Iterator<Item = Segment<'b>> + Clone,
        free: &mut Vec<u16>,
        out: &mut Vec<ToSend>,
    ) -> Result<(), Stays> {
        let (len, offload) = (frame.len(), frame.offload());
        let parts = self.parts(len);
        // A device was asked whether it takes so long a message.
        let is_cut = matches!(offload.work(), Work::Cut(_));
        if !is_cut && len > self.limits.longest || len > parts * self.pool.size() {
            return Err(Stays::TooLong);
        }
        if free.len() < parts as usize {
            return Err(Stays::Busy);
        }
        let first = out.len();
        self.copy(len, segments, free, out);
        let mut head = [0; HEAD];
        let copy = self.pool.segment(out[first].addr(), out[first].len().min(HEAD as u16).into());
        let filled = copy.map_or(0, |copy| copy.copy_to(&mut head));
        let Some(told) = left::told(&head[..filled], len, offload) else {
            free.extend(out.drain(first..).filter_map(|part| chunk(part.id())));
            return Err(Stays::Changed);
        };
        out[first] = out[first].and_work();
        self.works.borrow_mut().push(told);
        Ok(())
    }

    /// Returns the number of chunks that a frame of this length needs.
    #[inline(always)]
    fn parts(&self, len: u32) -> u32 {
        if self.limits.chains { len.div_ceil(self.pool.size()) } else { 1 }
    }

    /// Returns the first `len` bytes of an own chunk, to be sent.
    #[inline(always)]
    fn own(&self, index: u16, len: u32) -> ToSend {
        ToSend::new(self.pool.address(index), len as u16, OWN | u32::from(index))
    }

    /// Takes back frames that the device did not take.
    #[cold]
    fn give_up(&self, transmission: &mut Transmission, rest: &[ToSend], sent: &mut Sent) {
        for frame in rest {
            sent.frames -= u32::from(!frame.more());
            sent.bytes -= u64::from(frame.len());
            match chunk(frame.id()) {
                Some(chunk) => transmission.free.push(chunk),
                None => {
                    transmission.ids.push(frame.id() as u16);
                    self.returned.borrow_mut().extend(self.kept.borrow_mut().take(frame.id() as u16));
                }
            }
        }
    }

    /// Sends frames, with their `taken` bytes; without a copy, if their chains can be kept.
    #[inline(always)]
    fn send<'b>(&self, frames: Frames<'b>, taken: impl Taken<'b>) -> Sent {
        let transmission = &mut *self.transmission.borrow_mut();
        let Some(transmission) = transmission else { return Sent::none(Reason::Down) };
        self.reclaim(transmission);
        if !transmission.flush() {
            return Sent::none(Reason::Busy);
        }
        let mut out = self.out.borrow_mut();
        let from = self.in_place_from();
        let mut sent = Sent { rest: Some(Reason::Busy), ..Sent::default() };
        let mut in_place = 0;
        let some_left = !frames.offloads().is_none();
        for (index, frame) in frames.as_slice().iter().enumerate() {
            if some_left && !frame.offload().is_none() {
                match self.copy_left(frame, taken.segments(&frames, index), &mut transmission.free, &mut out) {
                    Ok(()) => {
                        sent.frames += 1;
                        sent.bytes += u64::from(frame.len());
                    }
                    Err(Stays::TooLong) => sent.too_long += 1,
                    Err(Stays::Changed) => sent.bad_offload += 1,
                    Err(Stays::Busy) => break,
                }
                continue;
            }
            let parts = self.parts(frame.len());
            if frame.len() > self.limits.longest || frame.len() > parts * self.pool.size() {
                sent.too_long += 1;
                continue;
            }
            if let Some(&id) = transmission.ids.last()
                && let Some((address, chain)) = self.keep(&frames, frame, from)
            {
                transmission.ids.pop();
                out.push(ToSend::new(address, frame.len() as u16, id.into()));
                self.kept.borrow_mut().put(id, chain);
                in_place += 1;
            } else if transmission.free.len() < parts as usize {
                break;
            } else {
                self.copy(frame.len(), taken.segments(&frames, index), &mut transmission.free, &mut out);
            }
            sent.frames += 1;
            sent.bytes += u64::from(frame.len());
        }
        let pushed = if some_left {
            let mut works = self.works.borrow_mut();
            let pushed = transmission.queue.send_work(&out, &works);
            works.clear();
            pushed
        } else {
            transmission.queue.send(&out)
        };
        if pushed < out.len() {
            in_place -= out[pushed..].iter().filter(|frame| chunk(frame.id()).is_none()).count() as u64;
            self.give_up(transmission, &out[pushed..], &mut sent);
        }
        out.clear();
        if let Some(mapped) = &self.mapped {
            mapped.sent_in_place.add(in_place);
            mapped.sent_copied.add(u64::from(sent.frames) - in_place);
        }
        sent
    }
}

impl TxQueue for DpdkTransmit {
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

    fn takes(&self) -> Offloads {
        self.limits.offloads
    }

    fn takes_from(&self, frames: &Frames<'_>, frame: &Frame<'_>) -> bool {
        left::takes(frames, frame, self.messages)
    }

    /// None: a card would cut again what the switch has merged.
    fn longest_merged(&self) -> u32 {
        0
    }

    #[inline]
    fn zero_copy(&self) -> Option<&dyn ZeroCopyTx> {
        Some(self)
    }

    fn life_cycle(&mut self) -> Option<&mut dyn LifeCycle> {
        Some(self)
    }
}

impl ZeroCopyTx for DpdkTransmit {
    fn returned(&self, release: &mut dyn FnMut(&[u16])) {
        if let Some(transmission) = &mut *self.transmission.borrow_mut()
            && !self.kept.borrow().is_empty()
        {
            transmission.flush();
            // Drivers return buffers when they need the room, if nobody asks.
            transmission.queue.clean();
            self.reclaim(transmission);
        }
        let returned = &mut *self.returned.borrow_mut();
        if !returned.is_empty() {
            release(returned);
            returned.clear();
        }
    }

    #[inline]
    fn splice(&self, from: &Dequeue, most: u16, test: Option<&mut HeaderTest<'_>>) -> Spliced {
        let transmission = &mut *self.transmission.borrow_mut();
        let (Some(transmission), Some(mapped)) = (transmission, &self.mapped) else { return Spliced::NOTHING };
        let id = self.in_place_from();
        if id == 0 || id != from.id() || !self.returned.borrow().is_empty() {
            return Spliced::NOTHING;
        }
        transmission.flush();
        if !self.kept.borrow().is_empty() {
            transmission.queue.clean();
        }
        let kept = transmission.most;
        let mut sender = Sender { transmission, reach: self.reach(NET_HEADER) };
        let terms = SendTerms { most, shortest: mapped.threshold(Direction::FromGuest), kept };
        let chains = &mut *self.kept.borrow_mut();
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
        self.mapped.as_ref().filter(|_| self.limits.in_place).map_or(u32::MAX, |mapped| mapped.keeps_from())
    }

    fn recall(&self, release: &mut dyn FnMut(&[u16])) {
        debug_assert!(self.transmission.borrow().is_none(), "the device may read them still");
        let mut ids = std::mem::take(&mut *self.returned.borrow_mut());
        ids.extend(self.kept.borrow_mut().drain());
        release(&ids);
    }
}

impl LifeCycle for DpdkTransmit {
    fn stop(&mut self) -> u64 {
        if let Some(transmission) = self.transmission.get_mut().take() {
            *self.home.lock().unwrap() = Some(transmission);
        }
        0
    }
}
