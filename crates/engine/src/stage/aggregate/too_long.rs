//! Packets that fit no aggregate to their next hop, which is behind routers: paflow (`too_long`) cuts them, or makes an answer to their
//! sender. The answer counts as received by this port, so that it finds its way as any packet from the network does.

use super::join::{Join, JoinState, Packets};
use crate::drops::Reason;
use crate::port::Sent;
use crate::stage::egress::Next;
use packet::{BurstStorage, Frames, MAX_BURST, MacAddr, Segment};
use paflow::Nfi;
use paflow::too_long::{TooLong, judge};

/// Words for answers at each queue: a dozen of the longest.
pub(crate) const REFUSALS: usize = 1 << 11;

/// Memory for one packet that is too long, and what becomes of it.
#[derive(Default)]
pub(super) struct Cutter {
    packet: Vec<u8>,
    out: Vec<u8>,
    /// Who has an answer waiting.
    answered: Vec<MacAddr>,
    storage: Box<BurstStorage>,
}

impl Join {
    /// Sends a burst with packets that are too long, in order.
    #[cold]
    pub(super) fn transmit_around(&self, packets: Packets<'_>, state: &mut JoinState, next: Next<'_>) -> Sent {
        let Packets { lengths, next_hops, .. } = packets;
        let (mut sent, mut from) = (Sent::default(), 0);
        while from < lengths.len() {
            let is_too_long =
                |&index: &usize| room_of(state, next_hops[index]).is_some_and(|room| room.refuses(lengths[index]));
            let to = (from..lengths.len()).find(is_too_long).unwrap_or(lengths.len());
            if from < to {
                sent = sent.and(self.transmit_planned(packets.select(from..to), state, next));
            }
            if to < lengths.len() {
                sent = sent.and(self.transmit_too_long(packets.taken, to, next_hops[to], state, next));
            }
            from = to + 1;
        }
        sent
    }

    /// Sends a burst with too many segments for one, in two.
    #[cold]
    pub(super) fn transmit_halves(&self, packets: Packets<'_>, state: &mut JoinState, next: Next<'_>) -> Sent {
        let (middle, end) = (packets.lengths.len() / 2, packets.lengths.len());
        if middle == 0 {
            self.drops.add(Reason::TooLong, end as u64);
            return Sent { counted: end as u32, ..Sent::default() };
        }
        let first = self.transmit_planned(packets.select(0..middle), state, next);
        first.and(self.transmit_planned(packets.select(middle..end), state, next))
    }

    /// Cuts the packet at `index`, or answers its sender.
    fn transmit_too_long(
        &self,
        frames: Frames<'_>,
        index: usize,
        next_hop: Option<Nfi>,
        state: &mut JoinState,
        next: Next<'_>,
    ) -> Sent {
        // What is held leaves first, and no fragment is held: it would count as a packet.
        let before = self.flush_held(state, next);
        let next = next.last();
        let longest = room_of(state, next_hop).map_or(0, |room| room.longest());
        let mut cutter = state.cutter.take().unwrap_or_default();
        let Cutter { packet, out, answered, storage } = &mut *cutter;
        let frame = &frames.as_slice()[index];
        packet.resize(frame.len() as usize, 0);
        frames.copy_to(frame, packet);
        let sent = match judge(packet, longest, out) {
            TooLong::Fragments { len } => {
                let fragments: &[u8] = out;
                let mut sent = Sent::default();
                let count = fragments.len().div_ceil(len) as u32;
                for some in fragments.chunks(len * MAX_BURST) {
                    let mut burst = storage.start();
                    some.chunks(len).for_each(|fragment| burst.push(Segment::from(fragment)));
                    let frames = burst.frames();
                    let mut lengths = [0; MAX_BURST];
                    let lengths = &mut lengths[..frames.len()];
                    lengths.iter_mut().zip(frames.as_slice()).for_each(|(to, frame)| *to = frame.len() as u16);
                    let next_hops = &[next_hop; MAX_BURST][..lengths.len()];
                    let packets = Packets { taken: frames, alone: frames, lengths, next_hops };
                    sent = sent.and(self.transmit_planned(packets, state, next));
                }
                as_one(&sent, count, frame.len())
            }
            judged => {
                if judged == TooLong::Answer {
                    self.answer(answered, out);
                }
                self.drops.add(Reason::TooLong, 1);
                Sent { counted: 1, ..Sent::default() }
            }
        };
        state.cutter = Some(cutter);
        before.and(sent)
    }
}

impl Join {
    /// Leaves an answer, one at a time to each sender: so none takes the room from others.
    fn answer(&self, answered: &mut Vec<MacAddr>, answer: &[u8]) {
        let Some(to) = answer.first_chunk().map(|to| MacAddr(*to)) else { return };
        if self.member.refusals.is_empty(self.queue) {
            answered.clear();
        }
        if !answered.contains(&to) && self.member.refusals.leave(self.queue, answer) {
            answered.push(to);
        }
    }
}

/// Returns the room to a next hop.
fn room_of(state: &JoinState, next_hop: Option<Nfi>) -> Option<paflow::plan::Room> {
    next_hop.and_then(|nfi| state.rules.value().hop(nfi)).map(|hop| state.hops[hop].room)
}

/// Converts the outcome of `count` fragments of a packet of `len` bytes: it is sent if all are.
fn as_one(sent: &Sent, count: u32, len: u32) -> Sent {
    if sent.frames == count {
        return Sent { frames: 1, bytes: len.into(), ..Sent::default() };
    }
    let one = |some: u32| some.min(1);
    let (too_long, refused) = (one(sent.too_long), one(sent.refused));
    Sent { bytes: sent.bytes, too_long, refused: refused.saturating_sub(too_long), rest: sent.rest, ..Sent::default() }
}
