//! Frames that do not fit from one run of bytes into one posted buffer.

use super::super::DropCounts;
use super::super::budget::cost;
use super::super::receive::{Prefetch, ReceiveRing};
use super::{Enqueue, Room};
use crate::error::{Dropped, Fatal};
use crate::layout::NET_HEADER;
use crate::memory::DirtyLog;
use packet::{Frames, Segment, Taken, offload};

impl<L: DirtyLog> Enqueue<L> {
    /// Delivers a frame that does not fit from one run of bytes into one buffer.
    #[cold]
    pub(super) fn scatter<'b>(
        &self,
        ring: &impl ReceiveRing,
        frames: &Frames<'b>,
        index: usize,
        taken: impl Taken<'b>,
    ) -> Result<Room, Fatal> {
        let frame = &frames.as_slice()[index];
        let need = frame.len() + NET_HEADER;
        let room = self.find_room(ring, need)?;
        let Room::Fits { buffers, chains } = room else { return Ok(room) };
        let mut header = [0; NET_HEADER as usize];
        header[..10].copy_from_slice(&offload::header::write(frame.offload()));
        header[10..].copy_from_slice(&chains.to_le_bytes());
        let header: &[u8] = &header;
        let writer = self.writer();
        let mut segments = taken.segments(frames, index);
        let mut source = Some(Segment::from(header));
        let mut left = need;
        let mut in_chain = 0;
        for i in 0..buffers {
            let buffer = self.posted.peek(i);
            let mut filled = 0;
            while filled < buffer.len
                && let Some(segment) = source
            {
                let (now, rest) = segment.split_at(buffer.len - filled);
                // SAFETY: `now` fits into what is left of the buffer, which was checked to be mapped.
                unsafe {
                    let to = buffer.ptr.add(filled as usize);
                    writer.copy(self.copier, to, now.as_ptr(), now.len() as usize);
                }
                filled += now.len();
                source = if rest.is_empty() { segments.next() } else { Some(rest) };
            }
            in_chain += filled;
            left -= filled;
            if buffer.is_last() {
                ring.put_one(buffer, in_chain);
                in_chain = 0;
            }
        }
        debug_assert_eq!(left, 0);
        self.posted.pop(buffers);
        Ok(room)
    }

    /// Finds the buffers for `need` bytes, reading more of them if needed. First returns chains at the front that
    /// cannot hold even a header. The budget pays for all of it.
    fn find_room(&self, ring: &impl ReceiveRing, need: u32) -> Result<Room, Fatal> {
        if self.filling.is_spent() {
            return Ok(Room::OverBudget);
        }
        let (mut buffers, mut chains, mut bytes) = (0, 0, 0u64);
        let room = loop {
            if buffers == self.posted.len() {
                // Each step reads at least one chain, so this ends: a queue has no more chains than its size.
                self.posted.make_room();
                ring.look_ahead(&self.posted, buffers + 1, Prefetch::No, &self.reading)?;
                if buffers == self.posted.len() {
                    break if self.reading.is_spent() { Room::OverBudget } else { Room::TooFew };
                }
            }
            let buffer = self.posted.peek(buffers);
            buffers += 1;
            bytes += u64::from(buffer.len);
            if !buffer.is_last() {
                continue;
            }
            if buffer.len == 0 || (chains == 0 && bytes < u64::from(NET_HEADER)) {
                if chains > 0 {
                    // In the middle of a frame: this chain waits until it is at the front, and this frame ends.
                    break Room::TooFew;
                }
                let reason = if buffer.len == 0 { Dropped::BadBuffer } else { Dropped::Short };
                DropCounts::count(&self.dropped, reason);
                let mut used = ring.used();
                ring.put_empty(&mut used, buffer.chain());
                ring.set_used(used);
                self.posted.pop(buffers);
                self.filling.spend(buffers);
                (buffers, bytes) = (0, 0);
                if self.filling.is_spent() {
                    break Room::OverBudget;
                }
                continue;
            }
            chains += 1;
            if bytes >= u64::from(need) {
                break Room::Fits { buffers, chains };
            }
            if !self.mergeable || chains == self.size {
                break Room::Never;
            }
            if !self.filling.allows(cost(buffers, bytes)) {
                break Room::OverBudget;
            }
        };
        self.filling.spend(cost(buffers, bytes.min(need.into())));
        Ok(room)
    }
}
