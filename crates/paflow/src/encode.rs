//! The bytes between embedded packets. Packets are referred to by index, not copied: the data path gathers them in
//! place.

use crate::class::{self, Around};
use crate::header::entry_size;
use crate::outer::Template;
use crate::plan::{Group, GroupedBurst, Members};
use packet::checksum::Sum;

/// At most three bytes of framing: the padding of the previous packet and the length of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    bytes: [u8; 3],
    start: u8,
    end: u8,
}

impl Framing {
    /// Returns the bytes in a four-byte word, to be written at once, and their range within it.
    #[inline(always)]
    pub fn word(&self) -> ([u8; 4], std::ops::Range<usize>) {
        let [a, b, c] = self.bytes;
        ([a, b, c, 0], self.start as usize..self.end as usize)
    }
}

impl std::ops::Deref for Framing {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start as usize..self.end as usize]
    }
}

/// The next part of an aggregate on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// These bytes; never empty.
    Framing(Framing),
    /// All bytes of the packet with this index in the burst.
    Packet(usize),
}

/// The parts of an aggregate after its headers, in order.
#[derive(Clone, Debug)]
pub struct AggregateParts<'a> {
    members: Members<'a>,
    lengths: &'a [u16],
    /// The packet whose framing was just returned.
    announced: Option<usize>,
    odd: bool,
}

impl<'a> GroupedBurst<'a> {
    /// Returns the parts after the headers of the aggregate of `group`, in order: framing and packets.
    #[inline(always)]
    pub fn parts(&self, group: &Group) -> AggregateParts<'a> {
        AggregateParts { members: self.members(group), lengths: self.lengths(), announced: None, odd: false }
    }
}

impl Iterator for AggregateParts<'_> {
    type Item = Part;

    #[inline(always)]
    fn next(&mut self) -> Option<Part> {
        if let Some(index) = self.announced.take() {
            return Some(Part::Packet(index));
        }
        let start = u8::from(!self.odd);
        self.announced = self.members.next();
        let Some(index) = self.announced else {
            return std::mem::take(&mut self.odd).then_some(Part::Framing(Framing { bytes: [0; 3], start, end: 1 }));
        };
        let len = self.lengths[index];
        self.odd = len & 1 == 1;
        let [high, low] = len.to_be_bytes();
        Some(Part::Framing(Framing { bytes: [0, high, low], start, end: 3 }))
    }
}

/// Writes the whole aggregate of `group`, outer headers included, to the front of `out`, and returns its length; `None`
/// if it doesn't fit. For callers that hold their packets as slices.
///
/// # Panics
/// If `packets` are not the planned ones.
pub fn write(
    burst: &GroupedBurst,
    group: &Group,
    template: &Template,
    packets: &[&[u8]],
    out: &mut [u8],
) -> Option<usize> {
    gather(template, burst.members(group).map(|index| packets[index]), out)
}

/// Writes an aggregate of these packets, outer headers included, to the front of `out`, and returns its length; `None` if it
/// doesn't fit. Their number and size must be those of a group.
#[inline]
pub fn gather<'p>(template: &Template, packets: impl Iterator<Item = &'p [u8]>, out: &mut [u8]) -> Option<usize> {
    let (headers, mut at) = out.split_at_mut_checked(template.len())?;
    let (mut sum, mut around, mut number, mut size) = (Sum::new(), Around::default(), 0, 0);
    for packet in packets {
        if template.is_routed() {
            around.add(class::of(packet));
        }
        let taken = entry_size(packet.len() as u16);
        let (entry, rest) = at.split_at_mut_checked(taken as usize)?;
        let (length, body) = entry.split_first_chunk_mut()?;
        *length = (packet.len() as u16).to_be_bytes();
        let (body, padding) = body.split_at_mut_checked(packet.len())?;
        body.copy_from_slice(packet);
        padding.fill(0);
        if template.wants_sum() {
            sum.add(entry);
        }
        number += 1;
        size += taken;
        at = rest;
    }
    headers.copy_from_slice(&template.headers_of_class(around.class(), number, size, sum));
    Some(template.len() + size as usize)
}
