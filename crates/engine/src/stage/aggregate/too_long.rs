//! Packets that fit no aggregate to their next hop, which is behind routers: paflow (`too_long`) cuts them, or makes an answer to their
//! sender. The answer counts as received by this port, so that it finds its way as any packet from the network does.

use crate::answers::Answers;
use crate::port::Sent;
use packet::{Burst, BurstStorage, Frame, Frames, MAX_BURST, MacAddr, Segment};
use paflow::too_long::{TooLong, treat};

/// Words for answers at each queue: a dozen of the longest.
pub(crate) const REFUSALS: usize = 1 << 11;

/// Memory for one packet that is too long, and its fragments or answer.
#[derive(Default)]
pub(super) struct Cutter {
    packet: Vec<u8>,
    out: Vec<u8>,
    /// Senders for which an answer is waiting.
    answered: Vec<MacAddr>,
    storage: Box<BurstStorage>,
}

impl Cutter {
    /// Decides how to treat a packet, which should have at most `longest` bytes.
    pub(super) fn treat(&mut self, frames: Frames<'_>, frame: &Frame<'_>, longest: usize) -> TooLong {
        self.packet.resize(frame.len() as usize, 0);
        frames.copy_to(frame, &mut self.packet);
        treat(&self.packet, longest, &mut self.out)
    }

    /// Passes the fragments to `send`, of which all but the last have `len` bytes, in bursts. Returns the outcome for the packet, which is
    /// sent if all are.
    pub(super) fn send_fragments(&mut self, len: usize, mut send: impl FnMut(&Burst<'_, '_>) -> Sent) -> Sent {
        let mut sent = Sent::default();
        for some in self.out.chunks(len * MAX_BURST) {
            let mut burst = self.storage.start();
            some.chunks(len).for_each(|fragment| burst.push(Segment::from(fragment)));
            sent = sent.and(send(&burst));
        }
        if sent.frames as usize == self.out.len().div_ceil(len) {
            return Sent { frames: 1, bytes: self.packet.len() as u64, ..Sent::default() };
        }
        let one = |some: u32| some.min(1);
        let (too_long, refused) = (one(sent.too_long), one(sent.refused));
        Sent {
            bytes: sent.bytes,
            too_long,
            refused: refused.saturating_sub(too_long),
            rest: sent.rest,
            ..Sent::default()
        }
    }

    /// Leaves the answer of a queue, one at a time to each sender: so none takes the room from others.
    pub(super) fn answer(&mut self, refusals: &Answers, queue: usize) {
        let Some(to) = self.out.first_chunk().map(|to| MacAddr(*to)) else { return };
        if refusals.is_empty(queue) {
            self.answered.clear();
        }
        if !self.answered.contains(&to) && refusals.leave(queue, &self.out) {
            self.answered.push(to);
        }
    }
}
