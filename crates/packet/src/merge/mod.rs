//! Merging: segments of TCP become a message again, as the sender had it, for a receiver that takes messages.
//!
//! The rules are those of the kernel (`tcp_gro_receive`): what is cut again by [`crate::segmenter`] is what came, but for the padding of
//! Ethernet, and for the numbers of IPv4 packets that nobody may fragment. Only frames that come together are merged, and so none waits.
//!
//! Headers are taken once, and are those that are sent: whose memory it is may change them meanwhile. Of the payload, nothing is decided by
//! its bytes but whether its checksum is right: who changes it afterwards harms the own stream alone.

mod headers;
mod open;

use crate::frame::{Frame, Frames, MAX_BURST, Segment, Taken};
use crate::header_len::{ETHERNET, IPV4, TCP};
use crate::offload::{MIN_SEGMENT, Offload, Offloads};
use headers::{Headers, Kind};
use open::Open;
use std::iter::{once, successors};

/// Length of the shortest frame that a message may begin with.
const SHORTEST: u32 = (ETHERNET + IPV4 + TCP) as u32 + MIN_SEGMENT as u32;

/// Length of the longest IP packet in bytes.
const LONGEST_PACKET: u32 = 65_535;

/// Maximum number of segments of memory that the payload of a message lies in. Only a malicious guest cuts frames into so many.
const MOST_PIECES: u16 = 2 * MAX_BURST as u16;

/// What a receiver takes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Kinds of messages.
    pub takes: Offloads,
    /// Maximum length of a message, in bytes.
    pub longest: u32,
}

/// A frame that leaves: one of those that came, or a message.
#[derive(Clone, Copy, Default)]
struct Unit {
    /// The first and the last of its frames, and their number.
    first: u8,
    last: u8,
    frames: u16,
    /// Bytes of payload, and the segments of memory that it lies in.
    payload: u32,
    pieces: u16,
    /// Whether the checksums of the first frame are known to be right.
    is_intact: bool,
    /// Flags that the message gets from its last frame.
    end: u8,
    /// Its description.
    offload: Offload,
}

/// Reports whether there may be anything to merge, by the lengths of the frames alone.
#[inline]
pub fn may_merge(frames: &[Frame<'_>]) -> bool {
    frames.len() > 1 && frames.iter().any(|frame| frame.len() >= SHORTEST)
}

/// Merges bursts for one output. It has room for the headers of a burst.
#[derive(Default)]
pub struct Merger {
    headers: [Headers; MAX_BURST],
    /// For each frame, the next one of the same message.
    next: [u8; MAX_BURST],
    units: [Unit; MAX_BURST],
}

impl Merger {
    /// Merges frames, with their `taken` bytes. `None` if there is nothing to merge.
    ///
    /// # Panics
    /// If there are more frames than a burst has.
    pub fn merge<'b>(&mut self, frames: &Frames<'b>, taken: impl Taken<'b>, limits: Limits) -> Option<Merged<'_>> {
        let (mut open, mut units) = (Open::default(), 0);
        for (index, frame) in frames.as_slice().iter().enumerate() {
            let is_complete = frame.offload().is_none();
            match self.headers[index].take(taken.segments(frames, index), frame.len()) {
                Kind::Other => {}
                Kind::Unclear => open.clear(),
                Kind::Segment => {
                    let (all, these) = (&self.units, &self.headers[index]);
                    let is_flow = |unit: usize| self.headers[usize::from(all[unit].first)].is_flow_of(these);
                    if let Some(place) = open.find(is_flow) {
                        let unit = open.at(place);
                        let is_added = is_complete && self.add(unit, index, frames, taken, limits);
                        if !is_added || self.is_whole(unit) {
                            // None of the connection's frames passes one of its others.
                            open.close(place);
                        }
                        if is_added {
                            continue;
                        }
                    }
                    let these = &self.headers[index];
                    if is_complete && these.may_begin() && limits.takes.has(these.needs()) {
                        open.add(units);
                    }
                }
            }
            let payload = self.headers[index].payload;
            let first = index as u8;
            let pieces = pieces(frames, frame);
            self.units[units] = Unit { first, last: first, frames: 1, payload, pieces, ..Unit::default() };
            units += 1;
        }
        if units == frames.len() {
            return None;
        }
        for unit in self.units[..units].iter_mut().filter(|unit| unit.frames > 1) {
            unit.offload = self.headers[usize::from(unit.first)].lead(unit.payload, unit.end);
        }
        Some(Merged { merger: self, units })
    }

    /// Adds a segment to a message of its connection, if it continues that.
    fn add<'b>(
        &mut self,
        unit: usize,
        index: usize,
        frames: &Frames<'b>,
        taken: impl Taken<'b>,
        limits: Limits,
    ) -> bool {
        let unit = &mut self.units[unit];
        let (first, these) = (&self.headers[usize::from(unit.first)], &self.headers[index]);
        let payload = unit.payload + these.payload;
        let pieces = unit.pieces.saturating_add(pieces(frames, &frames.as_slice()[index]));
        let fits = first.in_packet() + payload <= LONGEST_PACKET
            && first.bytes().len() as u32 + payload <= limits.longest
            && pieces <= MOST_PIECES;
        if !(fits && these.is_plain() && these.continues(first, unit.frames, unit.payload)) {
            return false;
        }
        let is_intact = |index: usize| self.headers[index].is_intact(taken.segments(frames, index));
        unit.is_intact = unit.is_intact || is_intact(unit.first.into());
        if !(unit.is_intact && is_intact(index)) {
            return false;
        }
        self.next[usize::from(unit.last)] = index as u8;
        *unit = Unit { last: index as u8, frames: unit.frames + 1, payload, pieces, end: these.ends_with(), ..*unit };
        true
    }

    /// Reports whether nothing may be added to a message any more.
    fn is_whole(&self, unit: usize) -> bool {
        let Unit { first, last, end, .. } = self.units[unit];
        end != 0 || self.headers[usize::from(last)].payload < self.headers[usize::from(first)].payload
    }
}

/// Returns the number of segments of memory that a frame lies in.
fn pieces<'b>(frames: &Frames<'b>, frame: &Frame<'b>) -> u16 {
    // A burst has no more than MAX_SEGMENTS.
    if frame.is_contiguous() { 1 } else { frames.segments(frame).count() as u16 }
}

/// A burst that was merged.
pub struct Merged<'m> {
    merger: &'m Merger,
    units: usize,
}

/// A frame of a burst that was merged.
pub enum Outgoing<'m> {
    /// The frame at this index, as it came.
    Frame(usize),
    /// A message.
    Message(MergedMessage<'m>),
}

impl<'m> Merged<'m> {
    /// Returns the frames that leave, in order.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = Outgoing<'m>> + use<'m> {
        let merger = self.merger;
        merger.units[..self.units].iter().map(move |unit| match unit.frames {
            1 => Outgoing::Frame(unit.first.into()),
            _ => Outgoing::Message(MergedMessage { merger, unit }),
        })
    }
}

/// A message that was made of several frames.
#[derive(Clone, Copy)]
pub struct MergedMessage<'m> {
    merger: &'m Merger,
    unit: &'m Unit,
}

impl<'m> MergedMessage<'m> {
    /// Returns the index of its first frame.
    pub fn first(self) -> usize {
        self.unit.first.into()
    }

    /// Returns the indices of its frames, in order.
    pub fn members(self) -> impl Iterator<Item = usize> + Clone + use<'m> {
        let Unit { first, frames, .. } = *self.unit;
        let next = move |index: &u8| Some(self.merger.next[usize::from(*index)]);
        successors(Some(first), next).take(frames.into()).map(usize::from)
    }

    /// Returns its description.
    pub fn offload(self) -> Offload {
        self.unit.offload
    }

    /// Returns its headers, and the payload of all of its frames, which are of `frames` with these `taken` bytes.
    pub fn segments<'b: 'm>(self, frames: &Frames<'b>, taken: impl Taken<'b>) -> impl Iterator<Item = Segment<'m>> {
        let headers = &self.merger.headers;
        let lead = Segment::from(headers[self.first()].bytes());
        let payload = move |index: usize| headers[index].payload(taken.segments(frames, index));
        once(lead).chain(self.members().flat_map(payload).map(|piece: Segment<'b>| -> Segment<'m> { piece }))
    }
}

#[cfg(test)]
mod tests;
