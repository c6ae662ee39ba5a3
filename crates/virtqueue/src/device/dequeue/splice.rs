//! Frames of a guest that a driver sends from the guest's memory, spliced: see [`crate::device::splice`].

use super::super::chain::Access;
use super::super::keep::Kept;
use super::super::loans::{Chains, NO_CHAIN};
use super::super::posted::Posted;
use super::super::receive::ReceiveRing;
use super::super::ring::{DeviceRing, each};
use super::super::splice::{Spliced, single};
use super::super::transmit::TransmitRing;
use super::Dequeue;
use crate::driver::{Buffer, Queue, Reach, Run, TakenBack};
use crate::layout::NET_HEADER;
use crate::memory::DirtyLog;
use packet::{MAX_FRAME, MIN_FRAME};

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
    pub fn splice(&self, sender: &mut Queue, chains: &mut Chains, terms: SendTerms) -> Spliced {
        // Outside of the loops: what is called in two of them would be part of neither.
        match sender {
            Queue::Split(sender) => self.splice_with(sender, chains, terms),
            Queue::Packed(sender) => self.splice_with(sender, chains, terms),
        }
    }

    /// Returns chains to the guest that `sender` has sent, as its `chains` by id say, and has it send the guest's next frames from
    /// where they lie, on these terms. Publishes both. Nothing is moved if no chains can be kept, or if others wait to be recycled.
    #[inline(always)]
    pub fn splice_with(&self, sender: &mut impl Run, chains: &mut Chains, terms: SendTerms) -> Spliced {
        let Some(kept) = self.kept.as_ref().filter(|kept| self.measured.is_none() && kept.is_at_rest()) else {
            return Spliced::NOTHING;
        };
        each!(&self.ring, ring => splice(ring.ring(), kept, sender, chains, terms))
    }
}

#[inline(always)]
fn splice<R: ReceiveRing + DeviceRing>(
    ring: &R,
    kept: &Kept,
    sender: &mut impl Run,
    chains: &mut Chains,
    SendTerms { most, shortest, kept: most_kept }: SendTerms,
) -> Spliced {
    let mut used = ring.used();
    let TakenBack { chains: back, stopped } = sender.take_back(u16::MAX, |id, _| {
        let entry = chains.entry(id);
        let Some((entry, chain)) = entry.and_then(|entry| kept.end(*entry).map(|chain| (entry, chain))) else {
            return false;
        };
        *entry = NO_CHAIN;
        ring.put_empty(&mut used, chain);
        true
    });
    let mut done = Spliced { back, stopped, ..Spliced::default() };
    kept.ended(back);
    chains.moved(back, 0);
    ring.set_used(used);
    ring.publish();
    let most = most.min(sender.free()).min(most_kept.saturating_sub(kept.out()));
    if most == 0 {
        return done;
    }
    let Ok(mut available) = ring.read_available(most) else {
        return Spliced { stopped: true, ..done };
    };
    let memory = &*ring.common().areas.memory;
    let lengths = shortest.max(MIN_FRAME)..=MAX_FRAME;
    let reach = sender.reach();
    let frames = sender.add_each(most, |id| {
        let buffer = match ring.head_at(&available) {
            Ok(None) => return None,
            Ok(Some(head)) => single::<R>(memory, head, Access::Read),
            Err(_) => None,
        };
        let frame = |buffer: &Posted| buffer.len.wrapping_sub(NET_HEADER);
        let Some((buffer, addr)) = buffer
            .filter(|buffer| lengths.contains(&frame(buffer)))
            .and_then(|buffer| Some((buffer, reach.address(buffer.ptr.addr() as u64, buffer.len)?)))
            .filter(|(buffer, _)| kept.begin(buffer.chain()))
        else {
            done.stopped = true;
            return None;
        };
        ring.pass_available(&mut available, buffer.slots);
        chains.set(id, buffer.id);
        done.bytes += u64::from(frame(&buffer));
        Some(Buffer { addr, len: buffer.len, writable: false })
    });
    ring.set_available(available);
    kept.began(frames);
    chains.moved(0, frames);
    done.frames = frames.into();
    sender.publish();
    done
}
