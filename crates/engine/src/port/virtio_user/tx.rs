//! The transmit half of a virtio-user queue.

use super::own::{Copied, OwnBuffers};
use super::{BufferedQueue, LONGEST, QueueResources, ROOM};
use crate::drops::Reason;
use crate::port::zero_copy::{Direction, HeaderTest, Mapped, Timing, ZeroCopyTx};
use crate::port::{Sent, TxQueue};
use packet::offload::{Offloads, header};
use packet::{BurstStorage, Frames, Judged, Kind, Segment, Taken, Unjudged};
use std::cell::RefCell;
use std::sync::Arc;
use vhost_user::frontend::DriverQueue;
use virtqueue::device::{Chains, Dequeue, Seen, SendTerms, Spliced, Unseen};
use virtqueue::driver::Buffer;
use virtqueue::{NET_HEADER, offload};

/// Number of buffers ahead whose first line is prefetched.
const AHEAD: usize = 12;

/// Bytes of a frame that fit into one buffer.
const FRAME_ROOM: u32 = ROOM - NET_HEADER;

/// Maximum number of buffers in a chain, which limits the length of a frame, unless messages are left to the device.
const MAX_CHAIN: u16 = 8;

/// Values of `LEFT` of [`VirtioTransmit::send`].
const NOTHING_LEFT: bool = false;
const WORK_LEFT: bool = true;

/// Transmit half: frames to the device.
pub struct VirtioTransmit {
    end: RefCell<BufferedQueue<Copied>>,
    own: RefCell<OwnBuffers>,
    /// Work that frames may leave to the device, and the maximum number of buffers in a chain.
    takes: Offloads,
    longest: u16,
    /// The chain being made, if it has several buffers.
    chain: RefCell<Vec<Buffer>>,
    mapped: Option<Arc<Mapped>>,
    timing: Option<Timing>,
    /// Chains of the guest that the device has returned.
    returned: RefCell<Vec<u16>>,
    /// Chains of the guest that the device has.
    kept: RefCell<Chains>,
}

/// Returns the number of a guest's chains that are kept at most. However slow the device is, the guest keeps some for other destinations.
fn most_kept<T>(queue: &DriverQueue<T>) -> u16 {
    queue.size() - queue.size() / 4
}

impl VirtioTransmit {
    /// Returns a half that copies frames into its own buffers; if it is `mapped`, it sends a guest's frames without a copy.
    pub fn new(end: QueueResources, mapped: Option<Arc<Mapped>>) -> VirtioTransmit {
        // A guest's frames go from where they lie, complete.
        let takes = if mapped.is_some() { Offloads::NONE } else { offload::of_driver(end.queue.config.negotiated) };
        let end = BufferedQueue::new(end);
        let size = end.queue.size();
        let longest = if takes.segmentation().is_none() { MAX_CHAIN } else { LONGEST };
        VirtioTransmit {
            end: RefCell::new(end),
            own: RefCell::new(OwnBuffers::new(size)),
            takes,
            longest: longest.min(size),
            chain: RefCell::new(Vec::with_capacity(longest.into())),
            timing: mapped.clone().map(|mapped| Timing::new(mapped, Direction::FromGuest)),
            mapped,
            returned: RefCell::new(Vec::with_capacity(size.into())),
            kept: RefCell::new(Chains::new(size)),
        }
    }

    /// Takes back chains that the device has returned. A kept chain is forgotten here: before this descriptor is
    /// reused, the guest may have sent the chain again, and it may be kept again.
    #[inline(always)]
    fn reclaim(&self, end: &mut BufferedQueue<Copied>, own: &mut OwnBuffers) {
        let returned_chains = &mut *self.returned.borrow_mut();
        let kept = &mut *self.kept.borrow_mut();
        loop {
            match end.queue.pop() {
                Ok(Some(returned)) => {
                    let chain = returned.entry.take();
                    if chain.is_none() {
                        returned_chains.extend(kept.take(returned.id));
                    } else {
                        own.put(end, chain);
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
        own: &mut OwnBuffers,
        (len, mark): (u32, u16),
        segments: impl Iterator<Item = Segment<'b>> + Clone,
    ) -> Option<()> {
        let index = own.take()?;
        let addr = end.buffer(index);
        end.arena.gather(addr + u64::from(NET_HEADER), segments);
        let (_, entry) = end.queue.add(&[Buffer { addr, len: NET_HEADER + len, writable: false }])?;
        *entry = Copied::new(index, 1, mark);
        Some(())
    }

    /// Copies a frame into as many buffers as it needs, which must be available. Leaves room for a virtio header in
    /// each: no byte of a frame may lie where the buffer's next frame, perhaps another guest's, has its header.
    #[cold]
    fn scatter<'b>(
        &self,
        end: &mut BufferedQueue<Copied>,
        own: &mut OwnBuffers,
        mark: u16,
        mut segments: impl Iterator<Item = Segment<'b>>,
    ) -> Option<()> {
        let buffers = &mut *self.chain.borrow_mut();
        buffers.clear();
        let (mut first, mut last) = (0, 0);
        let mut rest = segments.next();
        // Stops at the number of buffers that the frame needs, as no byte is left then.
        while rest.is_some() && buffers.len() < usize::from(self.longest) {
            let index = own.take()?;
            if buffers.is_empty() {
                first = index;
            } else {
                own.link(last, index);
            }
            last = index;
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
            let (addr, len) = if buffers.is_empty() { (at, NET_HEADER + filled) } else { (start, filled) };
            buffers.push(Buffer { addr, len, writable: false });
        }
        let (_, entry) = end.queue.add(buffers)?;
        *entry = Copied::new(first, buffers.len() as u16, mark);
        Some(())
    }

    /// Sends frames, with their `taken` bytes, of which some leave work or none do.
    #[inline(always)]
    fn send_any<'b>(&self, frames: Frames<'b>, taken: impl Taken<'b>) -> Sent {
        if frames.offloads().is_none() {
            self.send::<NOTHING_LEFT>(frames, taken)
        } else {
            self.send_left(frames, taken)
        }
    }

    #[inline(never)]
    fn send_left<'b>(&self, frames: Frames<'b>, taken: impl Taken<'b>) -> Sent {
        self.send::<WORK_LEFT>(frames, taken)
    }

    /// Sends frames, with their `taken` bytes; without a copy, if their chains can be kept. With `LEFT`, frames may leave work to the device.
    #[inline(always)]
    fn send<'b, const LEFT: bool>(&self, frames: Frames<'b>, taken: impl Taken<'b>) -> Sent {
        let end = &mut *self.end.borrow_mut();
        let own = &mut *self.own.borrow_mut();
        let mut sent = Sent { rest: Some(Reason::NoBuffers), ..Sent::default() };
        let (from, copy_break) = self
            .mapped
            .as_ref()
            .map_or((0, 0), |mapped| (mapped.in_place_from(), mapped.threshold(Direction::FromGuest)));
        if from != 0 || own.len() < 2 * frames.len() {
            self.reclaim(end, own);
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
            if wanted > self.longest.into() {
                sent.too_long += 1;
                continue;
            }
            let lacks = |end: &BufferedQueue<Copied>, own: &OwnBuffers| {
                own.len() < wanted as usize || end.queue.free() < wanted as u16
            };
            if lacks(end, own) {
                // Long frames need several buffers.
                self.reclaim(end, own);
                if lacks(end, own) {
                    break;
                }
            }
            let mut mark = 0;
            if LEFT && !frame.offload().is_none() {
                // The first buffer that is taken now.
                end.write_header(own.ahead(0).unwrap_or_default(), &header::write(frame.offload()));
                mark = Copied::DESCRIBED;
            }
            let added = if wanted == 1 && frame.is_contiguous() {
                if let Some(later) = own.ahead(AHEAD) {
                    end.arena.prefetch_write(end.buffer(later) + u64::from(NET_HEADER));
                }
                let index = own.take().unwrap_or_default();
                let addr = end.buffer(index);
                // The header before the frame is all zeros, as in each free buffer, unless the frame leaves work.
                let written = end.arena.gather(addr + u64::from(NET_HEADER), std::iter::once(frame.first()));
                debug_assert_eq!(written, Some(frame.len()), "buffers lie in the arena");
                if !taken.taken(place).is_empty() {
                    let taken = Segment::from(taken.taken(place));
                    end.arena.gather(addr + u64::from(NET_HEADER), std::iter::once(taken));
                }
                let added = end.queue.add(&[Buffer { addr, len: NET_HEADER + frame.len(), writable: false }]);
                added.map(|(_, entry)| *entry = Copied::new(index, 1, mark))
            } else if wanted == 1 {
                Self::gather(end, own, (frame.len(), mark), taken.segments(&frames, place))
            } else {
                self.scatter(end, own, mark, taken.segments(&frames, place))
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
        self.send_any(frames, Unjudged)
    }

    fn takes(&self) -> Offloads {
        self.takes
    }

    fn longest_merged(&self) -> u32 {
        // Longer messages take more of the ring than others can spare.
        u32::from(self.longest.min(self.end.borrow().queue.size() / 4)) * FRAME_ROOM
    }

    fn transmit_judged(&self, judged: Judged<'_>, _: &mut BurstStorage) -> Sent {
        let frames = judged.frames();
        match judged.taken() {
            Kind::Headers(taken) => self.send_any(frames, taken),
            Kind::Heads(taken) => self.send_any(frames, taken),
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
            self.reclaim(&mut self.end.borrow_mut(), &mut self.own.borrow_mut());
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
