//! Sending: packets to one next hop leave as one frame.
//!
//! The frame is built in the buffer of the first packet: headers go into its headroom, and the other packets are copied after
//! it.

use super::Aggregation;
use crate::memory::{Inside, Packet, Pool};
use crate::port::Port;
use packet::checksum::Sum;
use paflow::class::{self, Around};
use paflow::encode::Part;
use paflow::header::{LENGTH_LEN, entry_size};
use paflow::plan::{Group, GroupedBurst, MAX_BURST, Room};
use paflow::{AggregationRules, Nfi, Planner, Template};
use std::rc::Rc;
use std::sync::Arc;

/// The sending state of a port that aggregates.
pub(crate) struct Join {
    rules: Arc<AggregationRules>,
    /// By next hop of the rules: the room in an aggregate; none if the next hop is behind another port.
    rooms: Vec<Room>,
    /// Length from which no two packets fit into an aggregate.
    too_long: usize,
    /// Whether every packet has to be examined.
    looks_at_all: bool,
    planner: Box<Planner>,
    /// Packets waiting for the end of the burst, or for as many as can be planned.
    waiting: Vec<Option<Packet>>,
    /// Their lengths and next hops.
    lengths: Box<[u16; MAX_BURST]>,
    next_hops: Box<[Option<Nfi>; MAX_BURST]>,
    /// Their queue.
    queue: u16,
}

impl Join {
    pub(crate) fn new(aggregation: &Aggregation, port: &str) -> Join {
        let rules = aggregation.rules.clone();
        let rooms: Vec<Room> = rules.hops.iter().map(|hop| hop.room(port)).collect();
        let too_long = rooms.iter().map(|room| room.bytes).max().map_or(0, |bytes| bytes as usize / 2 + 1);
        let looks_at_all = rules.drop_unknown || rooms.iter().any(|room| room.routed);
        Join {
            rules,
            rooms,
            too_long,
            looks_at_all,
            planner: Box::default(),
            waiting: Vec::with_capacity(MAX_BURST),
            lengths: Box::new([0; MAX_BURST]),
            next_hops: Box::new([None; MAX_BURST]),
            queue: 0,
        }
    }

    #[inline]
    pub(crate) fn transmit(&mut self, port: &mut Port, burst: &mut Vec<Packet>) {
        if !self.looks_at_all && self.all_alone(burst) {
            return burst.drain(..).for_each(|packet| port.send(packet, 1));
        }
        for mut packet in burst.drain(..) {
            match packet.inside() {
                None => self.wait(port, packet),
                Some(inside) if self.relabel(&mut packet, inside) => {
                    // Earlier packets leave first.
                    self.send_waiting(port);
                    port.send(packet, inside.number.into());
                }
                Some(inside) => self.split(port, packet, inside),
            }
        }
        self.send_waiting(port);
    }

    /// Reports whether no packet of the burst has another that it can be joined with.
    #[inline]
    fn all_alone(&self, burst: &[Packet]) -> bool {
        let is_alone = |packet: &Packet| burst.len() == 1 || packet.total_len() >= self.too_long;
        burst.iter().all(|packet| packet.inside().is_none() && is_alone(packet))
    }

    /// Writes new headers to an aggregate, for the next hop of all its packets. Returns false if they have no common next
    /// hop, or the aggregate does not fit.
    fn relabel(&self, packet: &mut Packet, inside: Inside) -> bool {
        let (mut common, mut number, mut size, mut around) = (None, 0, 0, Around::default());
        for embedded in packet.embedded() {
            let next_hop = self.rules.table.next_hop(embedded);
            if next_hop.is_none() || number > 0 && next_hop != common {
                return false;
            }
            common = next_hop;
            number += 1;
            size += entry_size(embedded.len() as u16);
            if self.looks_at_all {
                around.add(class::of(embedded));
            }
        }
        let Some(hop) = common.and_then(|nfi| self.rules.hop(nfi)) else { return false };
        let template = &self.rules.hops[hop].template;
        let fits = size <= self.rooms[hop].bytes && number == inside.number;
        if !fits || packet.reframe(inside.at, template.len(), size as usize).is_none() {
            return false;
        }
        write_headers(packet, template, around, number, size);
        true
    }

    /// Splits an aggregate that can't leave as a whole, so that its packets are joined again.
    #[cold]
    fn split(&mut self, port: &mut Port, packet: Packet, inside: Inside) {
        let mut at = inside.at;
        for _ in 0..inside.number {
            let Some(&length) = packet.get(at..).and_then(|rest| rest.first_chunk()) else { break };
            let len = usize::from(u16::from_be_bytes(length));
            match packet.extract(port.pool(), at + LENGTH_LEN, len) {
                Ok(embedded) => self.wait(port, embedded),
                Err(reason) => port.drop_for(reason, 1),
            }
            at += entry_size(len as u16) as usize;
        }
    }

    #[inline]
    fn wait(&mut self, port: &mut Port, packet: Packet) {
        let queue = port.queue_of(&packet);
        if self.waiting.len() == MAX_BURST || queue != self.queue {
            self.send_waiting(port);
            self.queue = queue;
        }
        let next_hop = self.rules.table.next_hop(&packet);
        if next_hop.is_none() && self.rules.drop_unknown {
            return port.drop_for("unknown-chain", 1);
        }
        let index = self.waiting.len();
        // A packet longer than any IP packet is never joined.
        self.lengths[index] = u16::try_from(packet.total_len()).unwrap_or(u16::MAX);
        self.next_hops[index] = next_hop;
        self.waiting.push(Some(packet));
    }

    #[inline]
    fn send_waiting(&mut self, port: &mut Port) {
        let Join { rules, rooms, planner, waiting, lengths, next_hops, .. } = self;
        let count = waiting.len();
        let room = |nfi| rules.hop(nfi).map_or(Room::default(), |hop| rooms[hop]);
        let plan = planner.plan(&lengths[..count], &next_hops[..count], room);
        for group in plan.groups() {
            if group.is_too_long() {
                waiting[group.first()] = None;
                port.drop_for("too-long", 1);
                continue;
            }
            let template = group.next_hop().and_then(|nfi| Some(&rules.hops[rules.hop(nfi)?].template));
            let joined = template.filter(|_| !group.goes_as_it_is());
            match joined.and_then(|template| join(&plan, group, template, waiting, &lengths[..], port.pool())) {
                Some(packet) => port.send(packet, group.count().into()),
                None if group.is_routed() => {
                    plan.members(group).for_each(|index| waiting[index] = None);
                    port.drop_for("no-buffers", group.count().into());
                }
                // A single packet, or no buffer to join in.
                None => plan.members(group).filter_map(|index| waiting[index].take()).for_each(|p| port.send(p, 1)),
            }
        }
        waiting.clear();
    }
}

/// Joins the packets of a group into one frame. Returns `None`, without any change, if there is no buffer for it.
#[inline]
fn join(
    plan: &GroupedBurst<'_>,
    group: &Group,
    template: &Template,
    waiting: &mut [Option<Packet>],
    lengths: &[u16],
    pool: &Rc<Pool>,
) -> Option<Packet> {
    let (first, size) = (group.first(), group.size() as usize);
    let queue = waiting[first].as_ref()?.queue();
    // The first packet stays in place, after the headers and its length, if possible.
    let in_place = waiting[first].take_if(|packet| {
        let front = template.len() + LENGTH_LEN;
        packet.reframe(0, front, size - LENGTH_LEN).is_some()
    });
    let mut out = in_place.or_else(|| Packet::allocate(pool, template.len() + size))?;
    out.set_queue(queue);
    let mut around = Around::default();
    if template.is_routed() {
        let first = LENGTH_LEN + template.len();
        let whole = |index: usize| waiting[index].as_deref().or_else(|| out.get(first..)).and_then(class::of);
        plan.members(group).for_each(|index| around.add(whole(index)));
    }
    let mut at = template.len();
    for part in plan.parts(group) {
        match part {
            Part::Framing(framing) => {
                out[at..at + framing.len()].iter_mut().zip(&*framing).for_each(|(to, from)| *to = *from);
                at += framing.len();
            }
            Part::Packet(index) => {
                if let Some(packet) = waiting[index].take() {
                    packet.copy_to(0, &mut out[at..at + usize::from(lengths[index])]);
                }
                at += usize::from(lengths[index]);
            }
        }
    }
    write_headers(&mut out, template, around, group.count(), group.size());
    Some(out)
}

/// Writes the headers of `number` packets, which take the `size` bytes after them.
#[inline]
fn write_headers(frame: &mut [u8], template: &Template, around: Around, number: u16, size: u32) {
    let (headers, entries) = frame.split_at_mut(template.len());
    let mut sum = Sum::new();
    if template.wants_sum() {
        sum.add(entries);
    }
    // Only routers read the class.
    let class = if template.is_routed() { around.class() } else { 0 };
    headers.copy_from_slice(&template.headers_of_class(class, number, size, sum));
}
