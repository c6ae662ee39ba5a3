//! The transmit half of a virtio-user queue.

use super::{BufferedQueue, QueueResources, ROOM};
use crate::drops::Reason;
use crate::port::zero_copy::{Direction, HeaderTest, Mapped, Timing, ZeroCopyTx};
use crate::port::{Sent, TxQueue};
use packet::{BurstStorage, Frames, Judged, Kind, Segment, Taken, Unjudged};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use vhost_user::frontend::DriverQueue;
use virtqueue::NET_HEADER;
use virtqueue::device::{Chains, Dequeue, Seen, SendTerms, Spliced, Unseen};
use virtqueue::driver::Buffer;

/// Number of buffers ahead whose first line is prefetched.
const AHEAD: usize = 12;

/// Bytes of a frame that fit into one buffer.
const FRAME_ROOM: u32 = ROOM - NET_HEADER;

/// Maximum number of buffers in a chain, which limits the length of a frame.
const MAX_CHAIN: u32 = 8;

/// Transmit half: frames to the device.
pub struct VirtioTransmit {
    end: RefCell<BufferedQueue<Copied>>,
    /// Buffers that the device does not have, in the order in which it returned them.
    free: RefCell<VecDeque<u16>>,
    mapped: Option<Arc<Mapped>>,
    timing: Option<Timing>,
    /// Chains of the guest that the device has returned.
    returned: RefCell<Vec<u16>>,
    /// Chains of the guest that the device has.
    kept: RefCell<Chains>,
}

/// Buffers of the switch that a frame was copied to: none if it lies in the guest's memory ([`VirtioTransmit::kept`]).
#[derive(Clone, Copy, Default)]
struct Copied {
    indices: [u16; MAX_CHAIN as usize],
    count: u16,
}

impl Copied {
    #[inline(always)]
    fn one(index: u16) -> Copied {
        Copied { indices: [index, 0, 0, 0, 0, 0, 0, 0], count: 1 }
    }
}

/// Returns the number of a guest's chains that are kept at most. However slow the device is, the guest keeps some for other destinations.
fn most_kept<T>(queue: &DriverQueue<T>) -> u16 {
    queue.size() - queue.size() / 4
}

impl VirtioTransmit {
    /// Returns a half that copies frames into its own buffers; if it is `mapped`, it sends a guest's frames without a copy.
    pub fn new(end: QueueResources, mapped: Option<Arc<Mapped>>) -> VirtioTransmit {
        let end = BufferedQueue::new(end);
        let size = end.queue.size();
        VirtioTransmit {
            end: RefCell::new(end),
            free: RefCell::new((0..size).collect()),
            timing: mapped.clone().map(|mapped| Timing::new(mapped, Direction::FromGuest)),
            mapped,
            returned: RefCell::new(Vec::with_capacity(size.into())),
            kept: RefCell::new(Chains::new(size)),
        }
    }

    /// Takes back chains that the device has returned. A kept chain is forgotten here: before this descriptor is
    /// reused, the guest may have sent the chain again, and it may be kept again.
    #[inline(always)]
    fn reclaim(&self, end: &mut BufferedQueue<Copied>, free: &mut VecDeque<u16>) {
        let returned_chains = &mut *self.returned.borrow_mut();
        let kept = &mut *self.kept.borrow_mut();
        loop {
            match end.queue.pop() {
                Ok(Some(returned)) => {
                    let Copied { indices, count } = returned.entry;
                    match usize::from(std::mem::take(count)) {
                        0 => returned_chains.extend(kept.take(returned.id)),
                        count => free.extend(&indices[..count]),
                    }
                }
                Ok(None) => break,
                Err(_) => {
                    end.give_up();
                    break;
                }
            }
        }
    }

    /// Copies a frame of several segments, such as an aggregate, into one buffer, which must be available.
    #[inline(never)]
    fn gather<'b>(
        end: &mut BufferedQueue<Copied>,
        free: &mut VecDeque<u16>,
        len: u32,
        segments: impl Iterator<Item = Segment<'b>> + Clone,
    ) -> Option<()> {
        let index = free.pop_front()?;
        let addr = end.buffer(index);
        end.arena.gather(addr + u64::from(NET_HEADER), segments);
        let (_, entry) = end.queue.add(&[Buffer { addr, len: NET_HEADER + len, writable: false }])?;
        *entry = Copied::one(index);
        Some(())
    }

    /// Copies a frame into as many buffers as it needs, which must be available. Leaves room for a virtio header in
    /// each: no byte of a frame may lie where the buffer's next frame, perhaps another guest's, has its header.
    #[cold]
    fn scatter<'b>(
        end: &mut BufferedQueue<Copied>,
        free: &mut VecDeque<u16>,
        mut segments: impl Iterator<Item = Segment<'b>>,
    ) -> Option<()> {
        let (mut indices, mut count) = ([0; MAX_CHAIN as usize], 0);
        let mut buffers = [Buffer { addr: 0, len: 0, writable: false }; MAX_CHAIN as usize];
        let mut rest = segments.next();
        // Stops at the number of buffers that the frame needs, as no byte is left then.
        while rest.is_some() && u32::from(count) < MAX_CHAIN {
            let index = free.pop_front()?;
            let at = end.buffer(index);
            let start = at + u64::from(NET_HEADER);
            let mut filled = 0;
            while filled < FRAME_ROOM
                && let Some(segment) = rest
            {
                let (now, later) = segment.split_at(FRAME_ROOM - filled);
                filled += end.arena.gather(start + u64::from(filled), std::iter::once(now)).unwrap_or(0);
                rest = if later.is_empty() { segments.next() } else { Some(later) };
            }
            // The first buffer holds the header of the chain.
            let (addr, len) = if count == 0 { (at, NET_HEADER + filled) } else { (start, filled) };
            buffers[usize::from(count)] = Buffer { addr, len, writable: false };
            indices[usize::from(count)] = index;
            count += 1;
        }
        let (_, entry) = end.queue.add(&buffers[..usize::from(count)])?;
        *entry = Copied { indices, count };
        Some(())
    }

    /// Sends frames, with their `taken` bytes; without a copy, if their chains can be kept.
    #[inline(always)]
    fn send<'b>(&self, frames: Frames<'b>, taken: impl Taken<'b>) -> Sent {
        let end = &mut *self.end.borrow_mut();
        let mut free = self.free.borrow_mut();
        let mut sent = Sent { rest: Some(Reason::NoBuffers), ..Sent::default() };
        let (from, copy_break) = self
            .mapped
            .as_ref()
            .map_or((0, 0), |mapped| (mapped.in_place_from(), mapped.threshold(Direction::FromGuest)));
        if from != 0 || free.len() < 2 * frames.len() {
            self.reclaim(end, &mut free);
        }
        let most_kept = most_kept(&end.queue);
        let mut kept = 0;
        for (place, frame) in frames.as_slice().iter().enumerate() {
            if from != 0
                && frame.len() >= copy_break
                && self.kept.borrow().len() < most_kept
                && end.queue.free() > 0
                && let Some(chain) = frames.keep(frame, from)
            {
                // The guest's own header precedes it; neither side negotiated offloads.
                let addr = frame.first().as_ptr().addr() as u64 - u64::from(NET_HEADER);
                let buffer = Buffer { addr, len: NET_HEADER + frame.len(), writable: false };
                let (id, _) = end.queue.add(&[buffer]).expect("there is a free descriptor");
                self.kept.borrow_mut().put(id, chain);
                kept += 1;
                sent.frames += 1;
                sent.bytes += u64::from(frame.len());
                continue;
            }
            let wanted = frame.len().div_ceil(FRAME_ROOM);
            if wanted > MAX_CHAIN.min(end.queue.size().into()) {
                sent.too_long += 1;
                continue;
            }
            let lacks = |end: &BufferedQueue<Copied>, free: &VecDeque<u16>| {
                free.len() < wanted as usize || end.queue.free() < wanted as u16
            };
            if lacks(end, &free) {
                // Long frames need several buffers.
                self.reclaim(end, &mut free);
                if lacks(end, &free) {
                    break;
                }
            }
            let added = if wanted == 1 && frame.is_contiguous() {
                if let Some(&later) = free.get(AHEAD) {
                    end.arena.prefetch_write(end.buffer(later) + u64::from(NET_HEADER));
                }
                let index = free.pop_front().unwrap_or_default();
                let addr = end.buffer(index);
                // The header before the frame is all zeros (no offloads), as it has been since the start: nothing is
                // ever written there.
                let written = end.arena.gather(addr + u64::from(NET_HEADER), std::iter::once(frame.first()));
                debug_assert_eq!(written, Some(frame.len()), "buffers lie in the arena");
                if !taken.taken(place).is_empty() {
                    let taken = Segment::from(taken.taken(place));
                    end.arena.gather(addr + u64::from(NET_HEADER), std::iter::once(taken));
                }
                let added = end.queue.add(&[Buffer { addr, len: NET_HEADER + frame.len(), writable: false }]);
                added.map(|(_, entry)| *entry = Copied::one(index))
            } else if wanted == 1 {
                Self::gather(end, &mut free, frame.len(), taken.segments(&frames, place))
            } else {
                Self::scatter(end, &mut free, taken.segments(&frames, place))
            };
            if added.is_none() {
                break;
            }
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
}

impl TxQueue for VirtioTransmit {
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
        self.end.borrow_mut().queue.notify();
    }

    #[inline]
    fn zero_copy(&self) -> Option<&dyn ZeroCopyTx> {
        Some(self)
    }
}

impl ZeroCopyTx for VirtioTransmit {
    fn returned(&self, release: &mut dyn FnMut(&[u16])) {
        if !self.kept.borrow().is_empty() {
            self.reclaim(&mut self.end.borrow_mut(), &mut self.free.borrow_mut());
        }
        let returned = &mut *self.returned.borrow_mut();
        if !returned.is_empty() {
            release(returned);
            returned.clear();
        }
    }

    #[inline]
    fn splice(&self, from: &Dequeue, most: u16, test: Option<&mut HeaderTest<'_>>) -> Spliced {
        let Some(mapped) = &self.mapped else { return Spliced::NOTHING };
        let id = mapped.in_place_from();
        if id == 0 || id != from.id() || !self.returned.borrow().is_empty() {
            return Spliced::NOTHING;
        }
        let end = &mut *self.end.borrow_mut();
        let terms = SendTerms { most, shortest: mapped.threshold(Direction::FromGuest), kept: most_kept(&end.queue) };
        let (ring, chains) = (end.queue.ring(), &mut *self.kept.borrow_mut());
        let done = match test {
            None => from.splice(ring, chains, terms, Unseen),
            Some(test) => from.splice(ring, chains, terms, Seen::by(test)),
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
        self.returned(release);
        let ids: Vec<u16> = self.kept.borrow_mut().drain().collect();
        release(&ids);
    }
}
