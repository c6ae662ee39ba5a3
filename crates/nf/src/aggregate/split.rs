//! Receiving: aggregates are checked, then split or marked.

use super::{Aggregation, Placement};
use crate::memory::{Inside, Packet, Pool};
use crate::port::{BURST, Broken, Counters, Pair};
use paflow::Rules;
use paflow::decode::{MOST, Piece, locate};
use std::rc::Rc;
use std::sync::Arc;

/// Packets after which a burst is long enough: a whole number of aggregates of the shortest packets, in few enough buffers
/// to stay in the cache, and enough work for a round.
const ENOUGH: usize = 64;

/// Frames taken at a time while some of them are aggregates.
const FRAMES: usize = 4;

/// Maximum number of buffers that a burst of split packets takes, and the frames that wait to be split.
pub(crate) const SPLIT_BUFFERS: u16 = (ENOUGH + MOST + BURST) as u16;

/// The receiving state of a port that aggregates.
pub(crate) struct Split {
    rules: Arc<Rules>,
    placement: Placement,
    /// Received frames that wait to be split, the first one last.
    wire: Vec<Packet>,
    /// Whether the last frame was a single packet, as most of the next ones are likely to be.
    singles: bool,
    pieces: Box<[Piece; MOST]>,
}

impl Split {
    pub(crate) fn new(aggregation: &Aggregation) -> Split {
        let Aggregation { rules, placement } = aggregation.clone();
        Split {
            rules,
            placement,
            wire: Vec::with_capacity(BURST),
            singles: false,
            pieces: Box::new([Piece::default(); MOST]),
        }
    }

    /// Appends packets that have arrived at `pair` to `burst`, like [`Pair::receive`]. Drops invalid aggregates.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        pair: &mut Pair,
        pool: &Rc<Pool>,
        burst: &mut Vec<Packet>,
        counters: &mut Counters,
    ) -> Result<(), Broken> {
        let before = burst.len();
        let mut frames = 0;
        if self.singles && self.wire.is_empty() {
            // A broken device's frames are not looked at any more.
            let outcome = pair.receive(burst, BURST, &mut counters.malformed);
            if outcome.is_err() || burst.len() == before {
                burst.truncate(before);
                return outcome;
            }
            frames = self.keep_singles(burst, before, counters);
            if self.wire.is_empty() {
                counters.received_frames += frames as u64;
                return Ok(());
            }
        }
        while frames < BURST && burst.len() - before < ENOUGH {
            let waited = !self.wire.is_empty();
            if !waited {
                pair.receive(&mut self.wire, FRAMES, &mut counters.malformed)?;
                self.wire.reverse();
            }
            let is_last = waited || self.wire.len() < FRAMES;
            while burst.len() - before < ENOUGH
                && let Some(packet) = self.wire.pop()
            {
                self.singles = take(&self.rules, self.placement, &mut self.pieces[..], packet, pool, burst, counters);
                frames += 1;
            }
            // With frames that waited, a pair's turn ends. And if there are no more, an empty receive would only delay these packets,
            // to ask the device if it waits for buffers.
            if is_last {
                break;
            }
        }
        counters.received_frames += frames as u64;
        Ok(())
    }

    /// Leaves single packets from index `first` on where they are; the first other frame and those behind it wait. Returns the
    /// number of the former.
    #[inline]
    fn keep_singles(&mut self, burst: &mut Vec<Packet>, first: usize, counters: &mut Counters) -> usize {
        let is_single = |packet: &Packet| matches!(self.rules.find(packet), Ok(None));
        let singles = burst[first..].iter().take_while(|packet| is_single(packet)).count();
        self.wire.extend(burst.drain(first + singles..).rev());
        counters.received += singles as u64;
        singles
    }

    /// Reports whether frames wait to be split.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        !self.wire.is_empty()
    }
}

/// Splits, marks or drops one frame. Returns true if it was a single packet.
#[inline]
fn take(
    rules: &Rules,
    placement: Placement,
    pieces: &mut [Piece],
    mut packet: Packet,
    pool: &Rc<Pool>,
    burst: &mut Vec<Packet>,
    counters: &mut Counters,
) -> bool {
    let found = match rules.find(&packet) {
        Ok(Some(found)) => found,
        Ok(None) => {
            counters.received += 1;
            burst.push(packet);
            return true;
        }
        Err(reject) => {
            counters.dropped.add(reject.name(), 1);
            return false;
        }
    };
    let number = match locate(&packet, found.range, found.tail, pieces) {
        Ok(number) => number,
        Err(reject) => {
            counters.dropped.add(reject.name(), 1);
            return false;
        }
    };
    let pieces = &pieces[..number];
    counters.received += number as u64;
    if placement == Placement::Native && packet.mark(Inside::of(pieces)) {
        burst.push(packet);
        return false;
    }
    for piece in pieces {
        match packet.extract(pool, piece.start as usize, piece.len.into()) {
            Ok(embedded) => burst.push(embedded),
            Err(reason) => counters.dropped.add(reason, 1),
        }
    }
    false
}
