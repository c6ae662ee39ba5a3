//! Groups a burst by next hop, so that each group fits one aggregate.
//!
//! Packets to one next hop leave in the order in which they came: a packet that does not fit ends the open group of its
//! next hop and opens another one (next-fit). A later packet never goes into an earlier group, even if it would fit, and
//! one that can't be joined at all ends the open group too. Nothing waits: after the burst, all groups are ready.

use crate::encode::Parts;
use crate::header::{MIN_PACKET, entry_size};
use crate::table::Nfi;

/// Most packets in one burst.
pub const MAX_BURST: usize = 256;

/// Slots to find the open group of a next hop in: at most half full, so that probing ends.
const SLOTS: usize = 2 * MAX_BURST;

/// Packets that leave together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    next_hop: Option<Nfi>,
    first: u8,
    last: u8,
    count: u16,
    size: u32,
    room: u32,
    slot: u16,
}

impl Group {
    const EMPTY: Group = Group { next_hop: None, first: 0, last: 0, count: 0, size: 0, room: 0, slot: SLOTS as u16 };

    /// Where the packets go; `None` if the table doesn't know.
    #[inline(always)]
    pub fn next_hop(&self) -> Option<Nfi> {
        self.next_hop
    }

    /// How many packets there are.
    #[inline(always)]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Index of the first packet in the burst: the packet itself, if it goes as it is.
    #[inline(always)]
    pub fn first(&self) -> usize {
        self.first as usize
    }

    /// The one packet of the group goes as it is: it is alone, too long to be joined, or without next hop.
    #[inline(always)]
    pub fn goes_as_it_is(&self) -> bool {
        self.count == 1
    }

    /// Bytes that the packets take in an aggregate, with lengths and padding, without the aggregate's header.
    #[inline(always)]
    pub fn size(&self) -> u32 {
        self.size
    }
}

/// Memory for planning bursts. Made once, and used for one burst after the other.
#[derive(Debug)]
pub struct Planner {
    groups: [Group; MAX_BURST],
    /// The packet after this one in the same group.
    next: [u8; MAX_BURST],
    /// By hash of the next hop: the number of its open group plus one, or zero.
    open: [u16; SLOTS],
    used: usize,
}

impl Planner {
    /// Memory for bursts.
    pub const fn new() -> Planner {
        Planner { groups: [Group::EMPTY; MAX_BURST], next: [0; MAX_BURST], open: [0; SLOTS], used: 0 }
    }

    /// Groups a burst. `lengths` and `next_hops` have one element per packet; `room` says how many bytes an aggregate to
    /// a next hop has for packets, lengths and padding ([`crate::Template::room`]), and is asked once for each group.
    ///
    /// # Panics
    /// If the two are not equally long, or longer than [`MAX_BURST`].
    #[inline]
    pub fn plan<'a>(
        &'a mut self,
        lengths: &'a [u16],
        next_hops: &[Option<Nfi>],
        mut room: impl FnMut(Nfi) -> u32,
    ) -> Plan<'a> {
        assert!(lengths.len() == next_hops.len() && lengths.len() <= MAX_BURST, "a burst of {} packets", lengths.len());
        self.forget();
        // The group of the packet before: bursts often have runs of one next hop.
        let mut recent = (None, 0);
        for (index, (&len, &next_hop)) in lengths.iter().zip(next_hops).enumerate() {
            let Some(hop) = next_hop else {
                self.start(index, None, entry_size(len), 0, SLOTS);
                continue;
            };
            let size = entry_size(len);
            let known = if recent.0 == next_hop { Some(recent.1) } else { self.lookup(hop) };
            if let Some(group) = known.filter(|&group| self.fits(group, len, size)) {
                self.join(group, index, size);
                recent = (next_hop, group);
                continue;
            }
            let room = if len < MIN_PACKET { 0 } else { room(hop) };
            let slot = known.map_or_else(|| self.slot(hop), |group| self.groups[group].slot as usize);
            recent = (next_hop, self.start(index, next_hop, size, room, slot));
        }
        Plan { groups: &self.groups[..self.used], next: &self.next, lengths }
    }

    /// Closes all groups of the burst before: only the slots that it used.
    #[inline(always)]
    fn forget(&mut self) {
        for group in &self.groups[..self.used] {
            if let Some(slot) = self.open.get_mut(group.slot as usize) {
                *slot = 0;
            }
        }
        self.used = 0;
    }

    /// The slot of `hop`, or the free one where it would go.
    #[inline(always)]
    fn slot(&self, hop: Nfi) -> usize {
        // The upper 9 of 16 bits, as SLOTS is 2^9; the factor is 2^16 divided by the golden ratio.
        let mut at = (hop.get().wrapping_mul(40_503) >> (16 - SLOTS.trailing_zeros())) as usize;
        loop {
            match self.open[at % SLOTS] {
                0 => return at % SLOTS,
                group if self.groups[(group - 1) as usize % MAX_BURST].next_hop == Some(hop) => return at % SLOTS,
                _ => at += 1,
            }
        }
    }

    #[inline(always)]
    fn lookup(&self, hop: Nfi) -> Option<usize> {
        (self.open[self.slot(hop)] as usize).checked_sub(1)
    }

    #[inline(always)]
    fn fits(&self, group: usize, len: u16, size: u32) -> bool {
        let group = &self.groups[group];
        len >= MIN_PACKET && group.size + size <= group.room
    }

    #[inline(always)]
    fn join(&mut self, group: usize, index: usize, size: u32) {
        let group = &mut self.groups[group];
        self.next[group.last as usize] = index as u8;
        group.last = index as u8;
        group.count += 1;
        group.size += size;
    }

    #[inline(always)]
    fn start(&mut self, index: usize, next_hop: Option<Nfi>, size: u32, room: u32, slot: usize) -> usize {
        let group = self.used;
        let at = index as u8;
        self.groups[group] = Group { next_hop, first: at, last: at, count: 1, size, room, slot: slot as u16 };
        self.used += 1;
        if let Some(slot) = self.open.get_mut(slot) {
            *slot = self.used as u16;
        }
        group
    }
}

impl Default for Planner {
    fn default() -> Self {
        Planner::new()
    }
}

/// A burst in groups.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    groups: &'a [Group],
    next: &'a [u8; MAX_BURST],
    lengths: &'a [u16],
}

impl<'a> Plan<'a> {
    /// The groups, in the order in which they have to leave.
    #[inline(always)]
    pub fn groups(&self) -> &'a [Group] {
        self.groups
    }

    /// The packets of `group`, as indices into the burst, in the order in which they came.
    #[inline(always)]
    pub fn members(&self, group: &Group) -> Members<'a> {
        Members { next: self.next, at: group.first, left: group.count }
    }

    /// What comes after the headers of the aggregate of `group`, in order: framing and packets.
    #[inline(always)]
    pub fn parts(&self, group: &Group) -> Parts<'a> {
        Parts::new(self.members(group), self.lengths)
    }
}

/// The packets of a group, as indices into the burst.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    next: &'a [u8; MAX_BURST],
    at: u8,
    left: u16,
}

impl Iterator for Members<'_> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let index = self.at;
        self.at = self.next[index as usize];
        Some(index as usize)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Members<'_> {}
