//! Packets that are held until the end of a round, because others may come to the same next hop in it. They were copied:
//! what they came in goes back before the round ends. They lie here as they will in a frame, each with its length and
//! padding.

use paflow::Nfi;
use paflow::header::{LENGTH_LEN, entry_size};
use paflow::plan::Group;
use std::array::from_fn;
use virtqueue::{Frame, Frames};

/// Next hops for which something is held at a time.
const SLABS: usize = 16;

/// Bytes that are held for one: enough for the rule of [`Held::takes`] with frames of 9000 bytes.
const SLAB: usize = 4608;

/// What is held.
pub(super) struct Held {
    /// Whom each slab is for, if it is in use. Apart from the slabs, so that looking for one takes one line of the cache and
    /// not one of each slab.
    next_hops: [Option<Nfi>; SLABS],
    /// How many are in use.
    used: usize,
    slabs: Box<[Slab; SLABS]>,
}

/// Where it is held for one next hop.
pub(super) struct Slab {
    /// Packets.
    pub(super) count: u16,
    /// Their own bytes.
    pub(super) bytes: u32,
    /// Bytes that they take here.
    size: u32,
    entries: [u8; SLAB],
}

impl Held {
    /// Nothing.
    pub(super) fn new() -> Held {
        let slab = |_| Slab { count: 0, bytes: 0, size: 0, entries: [0; SLAB] };
        Held { next_hops: [None; SLABS], used: 0, slabs: Box::new(from_fn(slab)) }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// What is held, and for whom.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Nfi, &Slab)> {
        self.next_hops.iter().zip(&self.slabs[..]).filter_map(|(next_hop, slab)| Some(((*next_hop)?, slab)))
    }

    /// What is held for this next hop.
    #[inline(always)]
    pub(super) fn of(&self, next_hop: Nfi) -> Option<&Slab> {
        if self.is_empty() { None } else { self.place(Some(next_hop)).map(|index| &self.slabs[index]) }
    }

    /// The first slab that is for this next hop, or that is free.
    #[inline(always)]
    fn place(&self, next_hop: Option<Nfi>) -> Option<usize> {
        self.next_hops.iter().position(|&other| other == next_hop)
    }

    /// Next hops for which nothing is held, and something could be.
    pub(super) fn free(&self) -> usize {
        SLABS - self.used
    }

    /// Whether a group is worth holding. What fills more than half of a frame is not: copied twice, it would save less
    /// than half a frame.
    #[inline(always)]
    pub(super) fn takes(group: &Group) -> bool {
        group.size() * 2 <= group.room() && group.size() <= SLAB as u32
    }

    /// Where to hold what goes to this next hop: behind what is held for it, or in a free slab, of which there has to be
    /// one.
    pub(super) fn slab(&mut self, next_hop: Nfi) -> &mut Slab {
        let known = self.place(Some(next_hop));
        let index = known.unwrap_or_else(|| self.place(None).expect("free slabs were counted"));
        self.used += usize::from(known.is_none());
        self.next_hops[index] = Some(next_hop);
        &mut self.slabs[index]
    }

    /// What was held for this next hop has gone: how many packets.
    pub(super) fn release(&mut self, next_hop: Nfi) -> i32 {
        self.place(Some(next_hop)).map_or(0, |index| self.empty(index))
    }

    /// All of it has gone: how many packets.
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
        (slab.count, slab.bytes, slab.size) = (0, 0, 0);
        self.next_hops[index] = None;
        self.used -= 1;
        packets.into()
    }
}

impl Slab {
    /// Adds a packet: it has room, as its group was one that [`Held::takes`].
    pub(super) fn push(&mut self, frames: &Frames<'_>, frame: &Frame<'_>) {
        let len = frame.len() as u16;
        let entry = &mut self.entries[self.size as usize..][..entry_size(len) as usize];
        entry[..LENGTH_LEN].copy_from_slice(&len.to_be_bytes());
        let (packet, padding) = entry[LENGTH_LEN..].split_at_mut(len.into());
        frames.copy_to(frame, packet);
        padding.fill(0);
        self.count += 1;
        self.bytes += u32::from(len);
        self.size += entry_size(len);
    }

    /// The packets as they lie in an aggregate.
    pub(super) fn entries(&self) -> &[u8] {
        &self.entries[..self.size as usize]
    }

    /// The packet, if it is the only one.
    pub(super) fn single(&self) -> Option<&[u8]> {
        (self.count == 1).then(|| &self.entries[LENGTH_LEN..][..self.bytes as usize])
    }
}
