//! Packets held until the end of a round, because others may follow to the same next hop. They are copied, as the buffers that
//! they came in are recycled before the round ends, and stored as in an aggregate, each with its length and padding.

use packet::{Frame, Frames};
use paflow::Nfi;
use paflow::class::{self, Around};
use paflow::header::{LENGTH_LEN, entry_size};
use paflow::plan::Group;
use std::array::from_fn;

/// Maximum number of next hops with held packets.
const SLABS: usize = 16;

/// Bytes held per next hop: enough for the rule of [`Held::takes`] with frames of 9000 bytes.
const SLAB: usize = 4608;

/// Packets held at one queue.
pub(super) struct Held {
    /// Next hop of each slab in use. Separate from the slabs, so that a search reads one cache line and not one per slab.
    next_hops: [Option<Nfi>; SLABS],
    /// Number of slabs in use.
    used: usize,
    slabs: Box<[Slab; SLABS]>,
}

/// Packets held for one next hop.
pub(super) struct Slab {
    /// Number of packets.
    pub(super) count: u16,
    /// Bytes of the packets.
    pub(super) bytes: u32,
    /// The traffic class around them, if their next hop is behind routers.
    pub(super) around: Around,
    /// Bytes used in `entries`.
    size: u32,
    entries: [u8; SLAB],
}

impl Held {
    pub(super) fn new() -> Held {
        let slab = |_| Slab { count: 0, bytes: 0, around: Around::default(), size: 0, entries: [0; SLAB] };
        Held { next_hops: [None; SLABS], used: 0, slabs: Box::new(from_fn(slab)) }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Nfi, &Slab)> {
        self.next_hops.iter().zip(&self.slabs[..]).filter_map(|(next_hop, slab)| Some(((*next_hop)?, slab)))
    }

    /// Returns the slab of this next hop, if it has one.
    #[inline(always)]
    pub(super) fn of(&self, next_hop: Nfi) -> Option<&Slab> {
        if self.is_empty() { None } else { self.place(Some(next_hop)).map(|index| &self.slabs[index]) }
    }

    /// Returns the index of this next hop's slab, or of the first free one for `None`.
    #[inline(always)]
    fn place(&self, next_hop: Option<Nfi>) -> Option<usize> {
        self.next_hops.iter().position(|&other| other == next_hop)
    }

    /// Returns the number of free slabs.
    pub(super) fn free(&self) -> usize {
        SLABS - self.used
    }

    /// Reports whether a group is worth holding. A group that fills more than half a frame is not: a second copy would
    /// save less than half a frame.
    #[inline(always)]
    pub(super) fn takes(group: &Group) -> bool {
        group.size() * 2 <= group.room() && group.size() <= SLAB as u32
    }

    /// Returns the slab of this next hop, or a free one, of which there has to be one.
    pub(super) fn slab(&mut self, next_hop: Nfi) -> &mut Slab {
        let known = self.place(Some(next_hop));
        let index = known.unwrap_or_else(|| self.place(None).expect("free slabs were counted"));
        self.used += usize::from(known.is_none());
        self.next_hops[index] = Some(next_hop);
        &mut self.slabs[index]
    }

    /// Empties the slab of this next hop, which was sent. Returns its number of packets.
    pub(super) fn release(&mut self, next_hop: Nfi) -> i32 {
        self.place(Some(next_hop)).map_or(0, |index| self.empty(index))
    }

    /// Empties all slabs. Returns their number of packets.
    pub(super) fn clear(&mut self) -> i32 {
        let mut packets = 0;
        for index in 0..SLABS {
            if self.next_hops[index].is_some() {
                packets += self.empty(index);
            }
        }
        packets
    }

    fn empty(&mut self, index: usize) -> i32 {
        let slab = &mut self.slabs[index];
        let packets = slab.count;
        (slab.count, slab.bytes, slab.size, slab.around) = (0, 0, 0, Around::default());
        self.next_hops[index] = None;
        self.used -= 1;
        packets.into()
    }
}

impl Slab {
    /// Adds a packet, which fits because [`Held::takes`] accepted its group.
    pub(super) fn push(&mut self, frames: &Frames<'_>, frame: &Frame<'_>, routed: bool) {
        let len = frame.len() as u16;
        let entry = &mut self.entries[self.size as usize..][..entry_size(len) as usize];
        entry[..LENGTH_LEN].copy_from_slice(&len.to_be_bytes());
        let (packet, padding) = entry[LENGTH_LEN..].split_at_mut(len.into());
        frames.copy_to(frame, packet);
        padding.fill(0);
        if routed {
            self.around.add(class::of(&*packet));
        }
        self.count += 1;
        self.bytes += u32::from(len);
        self.size += entry_size(len);
    }

    /// Returns the packets in the format of an aggregate.
    pub(super) fn entries(&self) -> &[u8] {
        &self.entries[..self.size as usize]
    }

    /// Returns the packet if there is only one.
    pub(super) fn single(&self) -> Option<&[u8]> {
        (self.count == 1).then(|| &self.entries[LENGTH_LEN..][..self.bytes as usize])
    }
}
