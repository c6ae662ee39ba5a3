//! Frames of a guest that a driver sends from the guest's memory, spliced: see [`crate::device::splice`].

use super::super::chain::Access;
use super::super::keep::Kept;
use super::super::loans::{Chains, NO_CHAIN};
use super::super::posted::Posted;
use super::super::receive::ReceiveRing;
use super::super::ring::{DeviceRing, each};
use super::super::splice::{Pass, Spliced, next, passes};
use super::super::transmit::TransmitRing;
use super::Dequeue;
use crate::driver::{Buffer, Offer, Queue, Reach, Run, Take, TakenBack};
use crate::layout::NET_HEADER;
use crate::memory::{DirtyLog, Lookup};
use packet::copy::prefetch;
use packet::{MAX_BURST, MAX_FRAME, MIN_FRAME};
use std::hint::cold_path;
use std::ops::RangeInclusive;
use std::slice;

/// Terms on which a guest's frames are sent from its memory.
#[derive(Clone, Copy, Debug)]
pub struct SendTerms {
    /// Maximum number of frames.
    pub most: u16,
    /// Minimum length of a frame in bytes.
    pub shortest: u32,
    /// Maximum number of chains that are kept at the same time.
    pub kept: u16,
}

impl<L: DirtyLog> Dequeue<L> {
    /// Like [`Dequeue::splice_with`], with a virtio driver.
    #[inline]
    pub fn splice(&self, sender: &mut Queue, chains: &mut Chains, terms: SendTerms, pass: impl Pass) -> Spliced {
        // Outside of the loops: what is called in two of them would be part of neither.
        match sender {
            Queue::Split(sender) => self.splice_with(sender, chains, terms, pass),
            Queue::Packed(sender) => self.splice_with(sender, chains, terms, pass),
        }
    }

    /// Returns chains to the guest that `sender` has sent, as its `chains` by id say, and has it send the guest's next frames from
    /// where they lie, as far as they `pass`, on these terms. Publishes both. Nothing is moved if no chains can be kept, if others
    /// wait to be recycled, or if the guest may leave work on frames: their headers must be read.
    #[inline(always)]
    pub fn splice_with(
        &self,
        sender: &mut impl Run,
        chains: &mut Chains,
        terms: SendTerms,
        mut pass: impl Pass,
    ) -> Spliced {
        let may_splice = self.measured.is_none() && !self.intake.reads_headers();
        let Some(kept) = self.kept.as_ref().filter(|kept| may_splice && kept.is_at_rest()) else {
            return Spliced::NOTHING;
        };
        each!(&self.ring, ring => splice(ring.ring(), kept, sender, chains, terms, &mut pass))
    }
}

#[inline(always)]
fn splice<R: ReceiveRing + DeviceRing, P: Pass>(
    ring: &R,
    kept: &Kept,
    sender: &mut impl Run,
    chains: &mut Chains,
    SendTerms { most, shortest, kept: most_kept }: SendTerms,
    pass: &mut P,
) -> Spliced {
    let mut sent = Sent { ring, kept, chains, used: ring.used() };
    let TakenBack { chains: back, stopped } = sender.take_back(u16::MAX, &mut sent);
    let Sent { chains, used, .. } = sent;
    let done = Spliced { back, stopped, ..Spliced::default() };
    kept.ended(back);
    chains.moved(back, 0);
    ring.set_used(used);
    ring.publish();
    let most = most.min(sender.free()).min(most_kept.saturating_sub(kept.out()));
    if most == 0 {
        return done;
    }
    let Ok((available, known)) = ring.read_available(most, Access::Read) else {
        return Spliced { stopped: true, ..done };
    };
    let most = most.min(known);
    let lengths = shortest.max(MIN_FRAME)..=MAX_FRAME;
    let mut next = Next { ring, memory: ring.common().areas.memory.lookup(), lengths, available, stopped: false };
    // The guest's processor wrote the frames that are looked at: all are on their way before the first one is.
    let mut fetched = [Posted::NONE; MAX_BURST];
    let most = if P::LOOKS { next.fetch(most, &mut fetched) } else { most };
    let (fetched, reach) = (fetched.iter(), sender.reach());
    let mut frames = Frames { next, fetched, reach, kept, chains, pass, bytes: 0 };
    let count = sender.add_each(most, &mut frames);
    let Frames { next: Next { available, stopped, .. }, bytes, .. } = frames;
    ring.set_available(available);
    kept.began(count);
    chains.moved(0, count);
    sender.publish();
    Spliced { frames: count.into(), bytes, stopped: done.stopped || stopped, ..done }
}

/// Chains that the sender has sent, which go back to the guest.
struct Sent<'s, R: ReceiveRing> {
    ring: &'s R,
    kept: &'s Kept,
    /// By id of the sender's chain.
    chains: &'s mut Chains,
    used: R::Used,
}

impl<R: ReceiveRing> Take for &mut Sent<'_, R> {
    #[inline(always)]
    fn take(&mut self, id: u16, _: u32) -> bool {
        let Some(entry) = self.chains.entry(id) else { return false };
        let Some(chain) = self.kept.end(*entry) else { return false };
        *entry = NO_CHAIN;
        self.ring.put_empty(&mut self.used, chain);
        true
    }
}

/// The frames that a guest sends next.
struct Next<'r, R: DeviceRing> {
    ring: &'r R,
    memory: Lookup<'r>,
    /// Lengths of frames, without the virtio header.
    lengths: RangeInclusive<u32>,
    available: R::Available,
    /// Whether one has to go the general way.
    stopped: bool,
}

impl<R: DeviceRing> Next<'_, R> {
    /// Returns the frame at `available`, if there is one, in one buffer and of these lengths.
    #[inline(always)]
    fn frame(&mut self, available: &R::Available) -> Option<Posted> {
        let buffer = next(self.ring, self.memory, available);
        let frame = buffer.filter(|buffer| self.lengths.contains(&buffer.len.wrapping_sub(NET_HEADER)));
        if frame.is_none() {
            cold_path();
            self.stopped = self.ring.has_available(available);
        }
        frame
    }

    /// Has up to `most` frames fetched. Returns their number.
    #[inline(always)]
    fn fetch(&mut self, most: u16, frames: &mut [Posted; MAX_BURST]) -> u16 {
        let (mut available, mut count) = (self.available, 0);
        for place in frames.iter_mut().take(most.into()) {
            let Some(buffer) = self.frame(&available) else { break };
            prefetch(buffer.ptr.wrapping_add(NET_HEADER as usize));
            self.ring.pass_available(&mut available);
            *place = buffer;
            count += 1;
        }
        count
    }
}

/// Frames to send from where they lie, whose chains are kept.
struct Frames<'s, R: DeviceRing, C, P> {
    next: Next<'s, R>,
    /// Those that were fetched, if they are looked at.
    fetched: slice::Iter<'s, Posted>,
    reach: C,
    kept: &'s Kept,
    /// By id of the sender's chain.
    chains: &'s mut Chains,
    pass: &'s mut P,
    bytes: u64,
}

impl<R: DeviceRing, C: Reach, P: Pass> Offer for &mut Frames<'_, R, C, P> {
    #[inline(always)]
    fn offer(&mut self, id: u16) -> Option<Buffer> {
        let available = self.next.available;
        let buffer = if P::LOOKS { self.fetched.next().copied() } else { self.next.frame(&available) }?;
        let frame = buffer.len - NET_HEADER;
        // SAFETY: the buffer was found to be mapped for its length.
        let passes = unsafe { passes(self.pass, &buffer, frame) };
        if let Some(addr) = self.reach.address(buffer.ptr.addr() as u64, buffer.len)
            && passes
            && self.kept.begin(buffer.chain())
        {
            self.next.ring.pass_available(&mut self.next.available);
            self.chains.set(id, buffer.id);
            self.bytes += u64::from(frame);
            return Some(Buffer { addr, len: buffer.len, writable: false });
        }
        cold_path();
        self.next.stopped = true;
        None
    }
}
