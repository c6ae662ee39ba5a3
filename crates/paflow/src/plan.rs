//! Groups a burst by next hop, so that each group fits one aggregate.
//!
//! Packets to one next hop leave in the order in which they came: a packet that does not fit closes the open group of its
//! next hop and opens another one (next-fit). A later packet never joins an earlier group, even if it would fit, and
//! one that can't be joined at all closes the open group too. Nothing waits: after the burst, all groups are ready.
//!
//! A caller with several bursts before it must send may hold an open group ([`GroupedBurst::is_open`]), and pass its size to the
//! plan of the next burst ([`Room::held`]): the group then continues after the held packets.

use crate::header::{LENGTH_LEN, MIN_PACKET, entry_size};
use crate::table::Nfi;

/// Maximum number of packets in one burst.
pub const MAX_BURST: usize = 256;

/// Slots of the hash table of open groups by next hop: at most half full, so that probing ends.
const SLOTS: usize = 2 * MAX_BURST;

/// Maximum number of groups of a burst: a packet that does not fit after held packets makes two.
const MAX_GROUPS: usize = 2 * MAX_BURST;

/// The room in an aggregate to a next hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes for packets, lengths and padding ([`crate::Template::room`]).
    pub bytes: u32,
    /// Bytes of these taken by held packets of earlier bursts, which must leave first.
    pub held: u32,
    /// Whether the next hop is behind routers: every packet leaves in an aggregate, if need be of itself alone.
    pub routed: bool,
}

impl Room {
    /// Reports whether a packet of this length can't leave to the next hop: it is behind routers, and the packet fits no aggregate.
    #[inline(always)]
    pub fn refuses(&self, len: u16) -> bool {
        self.routed && (len < MIN_PACKET || entry_size(len) > self.bytes)
    }

    /// Returns the length of the longest packet that fits.
    pub fn longest(&self) -> usize {
        (self.bytes as usize).saturating_sub(LENGTH_LEN) & !1
    }
}

impl From<u32> for Room {
    /// Creates a room in which all bytes are free.
    fn from(bytes: u32) -> Room {
        Room { bytes, ..Room::default() }
    }
}

/// Packets that leave together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    next_hop: Option<Nfi>,
    first: u8,
    last: u8,
    count: u16,
    size: u32,
    held: u32,
    room: u32,
    slot: u16,
    routed: bool,
}

impl Group {
    const EMPTY: Group = Group {
        next_hop: None,
        first: 0,
        last: 0,
        count: 0,
        size: 0,
        held: 0,
        room: 0,
        slot: SLOTS as u16,
        routed: false,
    };

    /// Returns the next hop of the packets; `None` if the table has none.
    #[inline(always)]
    pub fn next_hop(&self) -> Option<Nfi> {
        self.next_hop
    }

    /// Returns the number of packets of this burst; zero if only held packets leave.
    #[inline(always)]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Returns the index of the group's first packet in the burst: the only one, if it goes as it is.
    #[inline(always)]
    pub fn first(&self) -> usize {
        self.first as usize
    }

    /// Reports whether the group is one packet that leaves unaggregated: alone, too long to be joined, or without next hop; and to no
    /// next hop behind routers.
    #[inline(always)]
    pub fn goes_as_it_is(&self) -> bool {
        self.count == 1 && self.held == 0 && !self.routed
    }

    /// Reports whether the group is one packet that can't leave, since it fits no aggregate to its next hop, which is behind routers.
    #[inline(always)]
    pub fn is_too_long(&self) -> bool {
        self.routed && self.size > self.room
    }

    /// Returns the bytes of the packets in an aggregate, with lengths and padding, without the aggregate's header.
    #[inline(always)]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the bytes of these taken by held packets, which go in front.
    #[inline(always)]
    pub fn held(&self) -> u32 {
        self.held
    }

    /// Reports whether its next hop is behind routers.
    #[inline(always)]
    pub fn is_routed(&self) -> bool {
        self.routed
    }

    /// Returns the bytes in an aggregate to the next hop; zero if the packets can't be joined.
    #[inline(always)]
    pub fn room(&self) -> u32 {
        self.room
    }
}

/// Memory for planning bursts, allocated once and reused for each burst.
#[derive(Debug)]
pub struct Planner {
    groups: [Group; MAX_GROUPS],
    /// By packet: the next packet in the same group.
    next: [u8; MAX_BURST],
    /// By hash of the next hop: the number of its open group plus one, or zero.
    open: [u16; SLOTS],
    used: usize,
}

impl Planner {
    /// Creates an empty planner.
    pub const fn new() -> Planner {
        Planner { groups: [Group::EMPTY; MAX_GROUPS], next: [0; MAX_BURST], open: [0; SLOTS], used: 0 }
    }

    /// Groups a burst. `lengths` and `next_hops` have one element per packet; `room` returns the room in an aggregate to a
    /// next hop, and is called once per group. Held packets count for the first group of their next hop only.
    ///
    /// # Panics
    /// If the lengths of the two differ, or exceed [`MAX_BURST`].
    #[inline]
    pub fn plan<'a, R: Into<Room>>(
        &'a mut self,
        lengths: &'a [u16],
        next_hops: &[Option<Nfi>],
        mut room: impl FnMut(Nfi) -> R,
    ) -> GroupedBurst<'a> {
        assert!(lengths.len() == next_hops.len() && lengths.len() <= MAX_BURST, "a burst of {} packets", lengths.len());
        self.forget();
        // The previous packet's group: bursts often have runs of one next hop.
        let mut recent = (None, 0);
        for (index, (&len, &next_hop)) in lengths.iter().zip(next_hops).enumerate() {
            let Some(hop) = next_hop else {
                self.start(index, None, entry_size(len), Room::default(), SLOTS);
                continue;
            };
            let size = entry_size(len);
            let known = if recent.0 == next_hop { Some(recent.1) } else { self.lookup(hop) };
            if let Some(group) = known.filter(|&group| self.fits(group, len, size)) {
                self.join(group, index, size);
                recent = (next_hop, group);
                continue;
            }
            let mut room = room(hop).into();
            if len < MIN_PACKET {
                room.bytes = 0;
            }
            let slot = match known {
                Some(group) => {
                    room.held = 0;
                    self.groups[group].slot as usize
                }
                None => self.slot(hop),
            };
            if room.held > 0 && room.held + size > room.bytes {
                self.start_held(next_hop, &room);
                room.held = 0;
            }
            recent = (next_hop, self.start(index, next_hop, size, room, slot));
        }
        GroupedBurst { groups: &self.groups[..self.used], next: &self.next, open: &self.open, lengths }
    }

    /// Closes all groups of the previous burst: clears only the slots that it used.
    #[inline(always)]
    fn forget(&mut self) {
        for group in &self.groups[..self.used] {
            if let Some(slot) = self.open.get_mut(group.slot as usize) {
                *slot = 0;
            }
        }
        self.used = 0;
    }

    /// Returns the slot of `hop`, or the free one where it would go.
    #[inline(always)]
    fn slot(&self, hop: Nfi) -> usize {
        // The upper 9 of 16 bits, as SLOTS is 2^9; the factor is 2^16 divided by the golden ratio.
        let mut at = (hop.get().wrapping_mul(40_503) >> (16 - SLOTS.trailing_zeros())) as usize;
        loop {
            match self.open[at % SLOTS] {
                0 => return at % SLOTS,
                group if self.groups[(group - 1) as usize % MAX_GROUPS].next_hop == Some(hop) => return at % SLOTS,
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
    fn start(&mut self, index: usize, next_hop: Option<Nfi>, size: u32, room: Room, slot: usize) -> usize {
        let group = self.used;
        let at = index as u8;
        let Room { bytes, held, routed } = room;
        self.groups[group] = Group {
            next_hop,
            first: at,
            last: at,
            count: 1,
            size: held + size,
            held,
            room: bytes,
            slot: slot as u16,
            routed,
        };
        self.used += 1;
        if let Some(slot) = self.open.get_mut(slot) {
            *slot = self.used as u16;
        }
        group
    }

    /// Adds a closed group of held packets alone: the next packet does not fit after them.
    #[cold]
    fn start_held(&mut self, next_hop: Option<Nfi>, room: &Room) {
        let &Room { bytes, held, routed } = room;
        self.groups[self.used] = Group { next_hop, size: held, held, room: bytes, routed, ..Group::EMPTY };
        self.used += 1;
    }
}

impl Default for Planner {
    fn default() -> Self {
        Planner::new()
    }
}

/// A burst in groups.
#[derive(Clone, Copy, Debug)]
pub struct GroupedBurst<'a> {
    groups: &'a [Group],
    next: &'a [u8; MAX_BURST],
    open: &'a [u16; SLOTS],
    lengths: &'a [u16],
}

impl<'a> GroupedBurst<'a> {
    /// Returns the groups, in the order in which they must leave.
    #[inline(always)]
    pub fn groups(&self) -> &'a [Group] {
        self.groups
    }

    /// Reports whether the group at `index` is the last one to its next hop: packets of a later burst could join it.
    #[inline(always)]
    pub fn is_open(&self, index: usize) -> bool {
        let slot = self.groups[index].slot as usize;
        self.open.get(slot).is_some_and(|&open| open as usize == index + 1)
    }

    /// Returns the packets of `group` as indices into the burst, in order of arrival.
    #[inline(always)]
    pub fn members(&self, group: &Group) -> Members<'a> {
        Members { next: self.next, at: group.first, left: group.count }
    }

    #[inline(always)]
    pub(crate) fn lengths(&self) -> &'a [u16] {
        self.lengths
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
