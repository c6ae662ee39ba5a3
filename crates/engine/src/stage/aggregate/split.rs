//! Splitting: aggregates of a burst become packets, which borrow from the aggregates.

use super::counters::{Traffic, WireFrame, common_len};
use super::{Member, Relay};
use crate::drops::{Drops, Reason};
use crate::live::Reader;
use crate::octets::{Bytes, SegmentBytes};
use crate::port::zero_copy::Mix;
use crate::stage::ingress::{IngressStage, Next};
use packet::{Buffers, Burst, BurstStorage, Frame, Frames, MAX_BURST, Origin, Segment};
use paflow::AggregationRules;
use paflow::class::{self, Marked};
use paflow::decode::{MOST, Piece, locate};
use paflow::receive::Found;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Bursts of packets taken at once. More than one, as one wake-up of the receiver serves all; and few enough to fit a
/// guest's usual ring of 256 buffers.
const TURN: usize = 4;

/// First bytes of a packet that has to be marked: they have all of its IP header that changes.
const MARKED: usize = 64;

/// Splitting of frames that a queue of a port that aggregates receives.
pub(crate) struct Split {
    member: Member,
    queue: usize,
    traffic: Arc<Traffic>,
    drops: Arc<Drops>,
    state: RefCell<SplitState>,
    /// The heads of packets that were marked, as the network marked their aggregate.
    marked: Buffers,
    /// Maximum number of frames in the next receive burst.
    at_once: Cell<usize>,
    /// Rounds to skip in favour of other queues.
    sits_out: Cell<usize>,
    /// The mix of the last burst.
    mix: Cell<Mix>,
}

/// State kept from burst to burst.
struct SplitState {
    rules: Reader<AggregationRules>,
    storage: Box<BurstStorage>,
    /// Places of the packets of one aggregate.
    pieces: Box<[Piece; MOST]>,
}

/// Kind of a received frame.
#[derive(Clone, Copy)]
enum Kind {
    /// An ordinary packet.
    Packet,
    /// An aggregate, with its span.
    Aggregate(Found),
    /// Flows relayed by another switch.
    Relayed,
    /// A possible request for an address of the switch.
    Question,
    /// A request that was answered.
    Answered,
    /// A frame to drop: an invalid aggregate, or a request too many.
    Wrong(Reason),
}

impl Split {
    /// Splits aggregates that queue `queue` of a port receives.
    pub(crate) fn new(member: Member, queue: usize, drops: Arc<Drops>) -> Split {
        let state = SplitState {
            rules: Reader::new(member.rules.clone()),
            storage: Box::default(),
            pieces: Box::new([Piece::default(); MOST]),
        };
        Split {
            traffic: member.traffic.of(queue).clone(),
            member,
            queue,
            drops,
            state: RefCell::new(state),
            marked: Buffers::new(MAX_BURST, MARKED),
            at_once: Cell::new(MAX_BURST),
            sits_out: Cell::new(0),
            mix: Cell::default(),
        }
    }

    /// Adds a packet of an aggregate that the network marked as having experienced congestion: the packet gets the mark, or
    /// is dropped if its sender would not understand it (RFC 6040 §4.2).
    #[cold]
    fn add_marked<'q>(&'q self, out: &mut Burst<'_, 'q>, frames: &Frames<'q>, frame: &Frame<'q>, piece: &Piece) {
        let (start, len) = (piece.start, u32::from(piece.len));
        let mut marked = Marked::Passed;
        let head = self.marked.fill(|room| {
            let mut filled = 0;
            for part in parts(frames, frame, start, len) {
                filled += part.copy_to(&mut room[filled..]);
            }
            marked = class::mark(&mut room[..filled]);
            (marked != Marked::Refused).then_some(filled)
        });
        match (marked, head) {
            (Marked::Refused, _) => self.drops.add(Reason::Congested, 1),
            (Marked::Passed, Some(head)) => {
                let rest = parts(frames, frame, start + head.len(), len - head.len());
                // A marked packet has a segment more than it came in.
                if !out.push_segments_from(std::iter::once(head).chain(rest), Origin::PART) {
                    self.drops.add(Reason::TooLong, 1);
                }
            }
            (Marked::Passed, None) => self.drops.add(Reason::TooLong, 1),
        }
    }

    /// Answers a request, or classifies it as an ordinary packet if it is not for the switch.
    #[cold]
    fn answer(&self, rules: &AggregationRules, frame: &Bytes<'_, '_>) -> Kind {
        match self.member.neighbours.answer(&rules.station, self.queue, frame) {
            None => Kind::Packet,
            Some(Ok(())) => Kind::Answered,
            Some(Err(reason)) => Kind::Wrong(reason),
        }
    }
}

impl IngressStage for Split {
    /// Passes on the packets of `burst`, one burst at a time and in order. Drops invalid aggregates.
    fn process(&self, burst: &mut Burst<'_, '_>, next: &mut Next<'_>) {
        let SplitState { rules, storage, pieces } = &mut *self.state.borrow_mut();
        rules.refresh();
        let (rules, drops) = (&**rules.value(), &*self.drops);
        let counters = &self.traffic.received;
        let frames = burst.frames();
        // Most bursts have no aggregate, or begin with one.
        if are_packets(rules, &frames) {
            // The burst itself goes on, so that frames can still be sent without a copy.
            counters.count_packets(frames.as_slice(), common_len(frames.as_slice()));
            self.mix.set(Mix { whole: frames.len() as u32, packets: frames.len() as u32, ..Mix::default() });
            next.pass(burst);
            return self.at_once.set(MAX_BURST);
        }
        let mut packets = 0;
        let mut mix = Mix::default();
        let mut out = storage.start();
        for frame in frames.as_slice() {
            let kind = match look(rules, &frames, frame) {
                Kind::Question => self.answer(rules, &Bytes::new(&frames, frame)),
                kind => kind,
            };
            match kind {
                Kind::Packet | Kind::Question => {
                    packets += 1;
                    mix.whole += 1;
                    counters.count(std::iter::once(WireFrame::packet(frame.len())));
                    // A frame that came in a buffer of its guest stays there.
                    if !out.push_rebuilt(frame, 0, frames.segments(frame)) {
                        too_many_segments(drops);
                    }
                }
                Kind::Answered => {}
                Kind::Wrong(reason) => drops.add(reason, 1),
                Kind::Relayed if self.member.relay.take(self.queue, &frames, frame) => {}
                Kind::Relayed => drops.add(Reason::ControllerBusy, 1),
                Kind::Aggregate(found) => {
                    let bytes = Bytes::new(&frames, frame);
                    let number = match locate(&bytes, found.range, found.tail, &mut pieces[..]) {
                        Ok(number) => number,
                        Err(reject) => {
                            drops.add(reject.into(), 1);
                            continue;
                        }
                    };
                    let aggregate = WireFrame { len: frame.len(), packets: number, is_aggregate: true };
                    counters.count(std::iter::once(aggregate));
                    packets += number;
                    mix.apart += 1;
                    mix.lent += u32::from(frame.is_lent());
                    for piece in &pieces[..number] {
                        if out.room() == 0 {
                            next.pass(&mut out);
                            out = storage.start();
                            self.marked.release();
                        }
                        if found.congested {
                            self.add_marked(&mut out, &frames, frame, piece);
                        } else {
                            add(&mut out, &frames, frame, piece.start, piece.len.into(), drops);
                        }
                    }
                }
            }
            if out.room() == 0 {
                next.pass(&mut out);
                out = storage.start();
                self.marked.release();
            }
        }
        if !out.is_empty() {
            next.pass(&mut out);
        }
        self.marked.release();
        self.mix.set(Mix { packets: packets as u32, ..mix });
        let frames = frames.len();
        self.at_once.set((TURN * MAX_BURST * frames).div_ceil(packets.max(frames)).min(MAX_BURST));
        // The other queues get one turn for each burst beyond the first.
        self.sits_out.set(packets.div_ceil(MAX_BURST).saturating_sub(1));
    }

    /// Takes as many frames as hold about [`TURN`] bursts of packets, judging by previous ones. All packets of a burst are
    /// forwarded before another queue has its turn: with a burst of full aggregates, the queue that packets return by would
    /// be served once every few hundred packets, and a network function would lose most of its packets.
    fn turn(&self) -> Option<usize> {
        let left = self.sits_out.get();
        if left > 0 {
            self.sits_out.set(left - 1);
            return None;
        }
        Some(self.at_once.get())
    }

    fn multiplies(&self) -> bool {
        true
    }

    fn mix(&self) -> Option<Mix> {
        Some(self.mix.get())
    }
}

#[inline(always)]
fn are_packets(rules: &AggregationRules, frames: &Frames<'_>) -> bool {
    // A copy: after reading memory that a guest may change, the compiler keeps nothing else in registers.
    let receiver = rules.receiver();
    // Those for the switch itself are neither TCP nor UDP. Headers rarely exceed the first segment.
    let passes_by = |frame: &Frame<'_>| receiver.passes_by(&SegmentBytes(frame.first()));
    frames.as_slice().iter().all(|frame| passes_by(frame) || matches!(look(rules, frames, frame), Kind::Packet))
}

/// Classifies a frame: an aggregate or another frame for this switch, or an ordinary packet.
#[inline(never)]
fn look(rules: &AggregationRules, frames: &Frames<'_>, frame: &Frame<'_>) -> Kind {
    let bytes = Bytes::new(frames, frame);
    match rules.find(&bytes) {
        Ok(Some(found)) => Kind::Aggregate(found),
        // A guest must not set next hops, as it could by writing to a buffer of its own.
        Ok(None) if !frame.is_lent() && rules.relay.is_some_and(|own| Relay::is_meant(own, &bytes)) => Kind::Relayed,
        Ok(None) if rules.station.may_be_asked(&bytes) => Kind::Question,
        Ok(None) => Kind::Packet,
        Err(reject) => Kind::Wrong(reject.into()),
    }
}

/// Adds a packet of an aggregate as a frame of its own: `len` bytes of `frame`, from `at` on. It is a borrow of the aggregate,
/// which may lie in a buffer of the guest that the packet is for: the packet is copied from there, never delivered in it.
#[inline(always)]
fn add<'q>(out: &mut Burst<'_, 'q>, frames: &Frames<'q>, frame: &Frame<'q>, at: u32, len: u32, drops: &Drops) {
    let (_, rest) = frame.first().split_at(at);
    if rest.len() >= len {
        return out.push_from(rest.split_at(len).0, Origin::PART);
    }
    if !out.push_segments_from(parts(frames, frame, at, len), Origin::PART) {
        too_many_segments(drops);
    }
}

/// Returns `len` bytes of a frame, from `at` on.
fn parts<'q>(frames: &Frames<'q>, frame: &Frame<'q>, at: u32, len: u32) -> impl Iterator<Item = Segment<'q>> {
    let (mut skip, mut left) = (at, len);
    frames.segments(frame).filter_map(move |segment| {
        let (before, rest) = segment.split_at(skip);
        skip -= before.len();
        let (part, _) = rest.split_at(left);
        left -= part.len();
        (!part.is_empty()).then_some(part)
    })
}

/// Counts a frame that the burst has no room for.
#[cold]
fn too_many_segments(drops: &Drops) {
    // The packets have no more segments in total than the frames that held them.
    debug_assert!(false, "the burst has room for all segments");
    drops.add(Reason::TooLong, 1);
}
