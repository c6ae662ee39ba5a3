//! Receiving: aggregates are checked, then split or marked.

use super::{Aggregation, Splitter};
use crate::memory::{Inside, Packet, Pool};
use crate::port::{BURST, Broken, Counters, Pair};
use paflow::AggregationRules;
use paflow::class::{self, Marked};
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
    rules: Arc<AggregationRules>,
    splitter: Splitter,
    /// Received frames that wait to be split, the first one last.
    wire: Vec<Packet>,
    /// Whether the last frame was a single packet, as most of the next ones are likely to be.
    singles: bool,
    pieces: Box<[Piece; MOST]>,
}

impl Split {
    pub(crate) fn new(aggregation: &Aggregation) -> Split {
        let Aggregation { rules, splitter } = aggregation.clone();
        Split {
            rules,
            splitter,
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
        let (mut singles, mut is_last) = (0, true);
        if self.wire.is_empty() {
            let before = burst.len();
            let most = if self.singles { BURST } else { FRAMES };
            let outcome = pair.receive(burst, most, &mut counters.malformed);
            if outcome.is_err() || burst.len() == before {
                // Frames of a broken device are ignored.
                burst.truncate(before);
                return outcome;
            }
            // If there are no more, an empty receive would only delay these packets, to ask the device if it waits for buffers.
            is_last = self.singles || burst.len() - before < FRAMES;
            singles = self.keep_singles(burst, before, counters);
            if self.wire.is_empty() {
                return Ok(());
            }
        }
        self.split(pair, pool, burst, counters, singles, is_last)
    }

    /// Leaves single packets from index `first` on where they are, if such are likely; the first other frame and those after
    /// it wait. Returns the number of the former.
    #[inline(never)]
    fn keep_singles(&mut self, burst: &mut Vec<Packet>, first: usize, counters: &mut Counters) -> usize {
        let receiver = self.rules.receiver();
        let likely = if self.singles { &burst[first..] } else { &[] };
        // Most are told by a few bytes. Those of a slice are located once, those of a packet at each read.
        let stays = |packet: &&Packet| receiver.passes_by(&packet[..]) || is_single(&self.rules, packet);
        let singles = likely.iter().take_while(stays).count();
        self.wire.extend(burst.drain(first + singles..).rev());
        counters.received += singles as u64;
        counters.received_frames += singles as u64;
        singles
    }

    /// Splits the frames that wait, after `singles`, and receives further ones unless they are the last of this turn.
    #[inline(never)]
    fn split(
        &mut self,
        pair: &mut Pair,
        pool: &Rc<Pool>,
        burst: &mut Vec<Packet>,
        counters: &mut Counters,
        singles: usize,
        mut is_last: bool,
    ) -> Result<(), Broken> {
        let before = burst.len() - singles;
        let mut frames = singles;
        loop {
            while burst.len() - before < ENOUGH
                && let Some(packet) = self.wire.pop()
            {
                self.singles = take(&self.rules, self.splitter, &mut self.pieces[..], packet, pool, burst, counters);
                frames += 1;
            }
            if is_last || frames >= BURST || burst.len() - before >= ENOUGH {
                break;
            }
            pair.receive(&mut self.wire, FRAMES, &mut counters.malformed)?;
            self.wire.reverse();
            is_last = self.wire.len() < FRAMES;
        }
        counters.received_frames += (frames - singles) as u64;
        Ok(())
    }

    #[inline]
    pub(crate) fn waits(&self) -> bool {
        !self.wire.is_empty()
    }
}

/// Reports whether a frame is a single packet. Not inlined, so that the loop that rarely calls it keeps its registers.
#[inline(never)]
fn is_single(rules: &AggregationRules, packet: &Packet) -> bool {
    matches!(rules.find(packet), Ok(None))
}

/// Splits, marks or drops one frame. Returns true if it was a single packet.
#[inline]
fn take(
    rules: &AggregationRules,
    splitter: Splitter,
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
    // A mark of the network has to be written to each packet.
    if splitter == Splitter::Native && !found.congested && packet.mark(Inside::of(pieces)) {
        burst.push(packet);
        return false;
    }
    for piece in pieces {
        match packet.extract(pool, piece.start as usize, piece.len.into()) {
            Ok(mut embedded) => {
                if found.congested && class::mark(&mut embedded) == Marked::Refused {
                    counters.dropped.add("congested", 1);
                } else {
                    burst.push(embedded);
                }
            }
            Err(reason) => counters.dropped.add(reason, 1),
        }
    }
    false
}
