//! Segments of an aggregate: headers and lengths from a small arena, and packets in place.

use super::held::Slab;
use crate::octets::Bytes;
use packet::checksum::Sum;
use packet::{Frames, Segment};
use paflow::encode::{AggregateParts, Framing, Part};
use paflow::plan::{Group, GroupedBurst};
use paflow::{Octets, class};

/// Copies `bytes` to the front of the arena, and advances it.
#[inline]
pub(super) fn put<'q>(arena: &mut &'q mut [u8], bytes: &[u8]) -> Segment<'q> {
    let (now, rest) = std::mem::take(arena).split_at_mut(bytes.len());
    now.copy_from_slice(bytes);
    *arena = rest;
    Segment::from(&*now)
}

/// The same for the few bytes between two packets, without a call to copy them.
#[inline(always)]
fn put_framing<'q>(arena: &mut &'q mut [u8], bytes: &Framing) -> Option<Segment<'q>> {
    let (now, rest) = std::mem::take(arena).split_first_chunk_mut()?;
    let (word, used) = bytes.word();
    *now = word;
    *arena = rest;
    Some(Segment::from(&now[used]))
}

/// A packet of several segments, of which some were returned.
struct Scattered {
    /// Index of its frame in the burst.
    frame: usize,
    returned: usize,
}

/// Iterator over the segments of an aggregate.
pub(super) struct Gather<'x, 'q> {
    headers: Option<Segment<'q>>,
    /// Held packets, with their framing.
    held: Option<Segment<'q>>,
    parts: AggregateParts<'x>,
    frames: &'x Frames<'q>,
    arena: &'x mut &'q mut [u8],
    /// The packet whose segments are returned at present, if it has several.
    packet: Option<Scattered>,
}

impl<'x, 'q> Gather<'x, 'q> {
    /// Orders the segments: headers, held packets, packets of the group.
    #[inline(always)]
    pub(super) fn new(
        headers: Segment<'q>,
        held: Option<Segment<'q>>,
        parts: AggregateParts<'x>,
        frames: &'x Frames<'q>,
        arena: &'x mut &'q mut [u8],
    ) -> Self {
        Gather { headers: Some(headers), held, parts, frames, arena, packet: None }
    }
}

impl<'q> Iterator for Gather<'_, 'q> {
    type Item = Segment<'q>;

    #[inline(always)]
    fn next(&mut self) -> Option<Segment<'q>> {
        if let Some(headers) = self.headers.take() {
            return Some(headers);
        }
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        if let Some(packet) = &mut self.packet {
            let frame = &self.frames.as_slice()[packet.frame];
            if let Some(segment) = self.frames.segments(frame).nth(packet.returned) {
                packet.returned += 1;
                return Some(segment);
            }
            self.packet = None;
        }
        match self.parts.next()? {
            Part::Framing(bytes) => put_framing(self.arena, &bytes),
            Part::Packet(index) => {
                let frame = &self.frames.as_slice()[index];
                if !frame.is_contiguous() {
                    self.packet = Some(Scattered { frame: index, returned: 1 });
                }
                Some(frame.first())
            }
        }
    }
}

/// Returns the traffic class around held packets and the packets of a group.
#[cold]
pub(super) fn class_of(held: Option<&Slab>, plan: &GroupedBurst<'_>, group: &Group, frames: &Frames<'_>) -> u8 {
    let mut around = held.map(|slab| slab.around).unwrap_or_default();
    for member in plan.members(group) {
        around.add(class::of(&Bytes::new(frames, &frames.as_slice()[member])));
    }
    around.class()
}

/// Returns the sum of an aggregate after its headers: held packets, then the packets of a group.
pub(super) fn sum_of(held: &[u8], plan: &GroupedBurst<'_>, group: &Group, frames: &Frames<'_>) -> Sum {
    let mut sum = Sum::new();
    sum.add(held);
    for part in plan.parts(group) {
        match part {
            Part::Framing(bytes) => sum.add(&bytes),
            Part::Packet(index) => {
                let bytes = Bytes::new(frames, &frames.as_slice()[index]);
                let mut at = 0;
                while let Some(block) = bytes.read::<64>(at) {
                    sum.add(&block);
                    at += 64;
                }
                while let Some(byte) = bytes.byte(at) {
                    sum.add(&[byte]);
                    at += 1;
                }
            }
        }
    }
    sum
}
