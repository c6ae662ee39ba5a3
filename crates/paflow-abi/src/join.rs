//! Sending.

use crate::rules::PortRules;
use paflow::encode::gather;
use paflow::plan::{MAX_BURST, Room};
use paflow::{Nfi, Planner};

/// The treatment of the packets of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// One packet, sent as it is.
    Alone,
    /// Joined in one frame.
    Joined,
    /// One packet, dropped: its service chain has no flow.
    UnknownChain,
    /// One packet, dropped: it fits no frame to its next hop, which is behind routers.
    TooLong,
}

/// Packets of a burst that leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Group {
    /// Their treatment: a [`Kind`].
    pub kind: u32,
    /// Length of the whole frame, if they are joined.
    pub length: u32,
    /// The place of the first one's number in the order.
    pub first: u16,
    /// Their number.
    pub count: u16,
    /// Index of the next hop in the rules.
    pub next_hop: u16,
    /// 1 if the packets must not leave one by one if they can't be joined: the next hop is behind routers.
    pub only_joined: u16,
}

/// Memory for planning.
#[derive(Debug)]
pub struct Join {
    planner: Planner,
    lengths: [u16; MAX_BURST],
    next_hops: [Option<Nfi>; MAX_BURST],
}

impl Default for Join {
    fn default() -> Join {
        Join { planner: Planner::new(), lengths: [0; MAX_BURST], next_hops: [None; MAX_BURST] }
    }
}

impl Join {
    /// Groups packets, of which each is given by the bytes in one piece that it begins with, and its length. Calls `order` with the
    /// number of each packet, group by group, and `group` with each group. Returns the number of groups, in the order in which they
    /// must leave. Takes no more than [`MAX_BURST`] packets.
    #[inline]
    pub fn plan<'p>(
        &mut self,
        rules: &PortRules,
        packets: impl Iterator<Item = (&'p [u8], u32)>,
        mut order: impl FnMut(u16, u16),
        mut group: impl FnMut(u16, Group),
    ) -> u16 {
        let PortRules { rules, rooms, .. } = rules;
        let mut count = 0;
        for ((bytes, length), (to, hop)) in packets.zip(self.lengths.iter_mut().zip(&mut self.next_hops)) {
            // One that is longer than any IP packet is never joined, and neither is one in several pieces.
            let whole = bytes.len() == length as usize;
            *to = u16::try_from(length).ok().filter(|_| whole).unwrap_or(u16::MAX);
            *hop = rules.table.next_hop(bytes);
            count += 1;
        }
        let room = |nfi| rules.hop(nfi).map_or(Room::default(), |hop| rooms[hop]);
        let plan = self.planner.plan(&self.lengths[..count], &self.next_hops[..count], room);
        let (mut groups, mut first) = (0, 0);
        for planned in plan.groups() {
            let hop = planned.next_hop().and_then(|nfi| rules.hop(nfi));
            let (kind, length, next_hop) = match hop {
                _ if planned.is_too_long() => (Kind::TooLong, 0, 0),
                Some(hop) if !planned.goes_as_it_is() => {
                    (Kind::Joined, rules.hops[hop].template.len() as u32 + planned.size(), hop as u16)
                }
                _ if planned.next_hop().is_none() && rules.drop_unknown => (Kind::UnknownChain, 0, 0),
                _ => (Kind::Alone, 0, 0),
            };
            let count = planned.count();
            (first..).zip(plan.members(planned)).for_each(|(place, packet)| order(place, packet as u16));
            let is_routed = hop.is_some_and(|hop| rules.hops[hop].template.is_routed());
            let only_joined = u16::from(is_routed && kind == Kind::Joined);
            group(groups, Group { kind: kind as u32, length, first, count, next_hop, only_joined });
            first += count;
            groups += 1;
        }
        groups
    }
}

/// Writes the frame of these packets to `out`, with headers to this next hop of the rules. Returns its length; `None` if it does not
/// fit, or there is no such next hop.
#[inline]
pub fn write<'p>(
    rules: &PortRules,
    next_hop: u16,
    packets: impl Iterator<Item = &'p [u8]>,
    out: &mut [u8],
) -> Option<usize> {
    gather(&rules.rules.hops.get(usize::from(next_hop))?.template, packets, out)
}
