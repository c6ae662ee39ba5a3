//! Egress: from forwarding to a port's queue.

use super::complete::Completer;
use super::list::{List, Placed};
use super::stopwatch::{FORWARD, Stopwatch};
use crate::port::zero_copy::GuestBuffers;
use crate::port::{Sent, TxQueue, put_together};
use packet::offload::Offloads;
use packet::{BurstStorage, Frame, Frames, Judged};
use std::cell::OnceCell;

/// Frames on their way to an output.
pub(crate) enum Outgoing<'o, 'b> {
    /// Frames that nobody judged, or that lie where no guest changes what was judged.
    Frames(Frames<'b>),
    /// Frames with what was judged of them, and room to put both together.
    Judged(Judged<'b>, &'o mut BurstStorage),
}

impl<'b> Outgoing<'_, 'b> {
    /// Returns the number of frames.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        match self {
            Outgoing::Frames(frames) => frames.len(),
            Outgoing::Judged(judged, _) => judged.frames().len(),
        }
    }

    /// Returns what a receiver of all these frames must be able to do, or more.
    #[inline(always)]
    fn offloads(&self) -> Offloads {
        match self {
            Outgoing::Frames(frames) => frames.offloads(),
            Outgoing::Judged(judged, _) => judged.frames().offloads(),
        }
    }

    /// Returns the frames as they lie in memory.
    fn in_memory(&self) -> Frames<'b> {
        match self {
            Outgoing::Frames(frames) => *frames,
            Outgoing::Judged(judged, _) => judged.frames(),
        }
    }

    /// Passes the frames to `send` as they are sent.
    #[inline(always)]
    pub(crate) fn put_together(self, send: impl FnOnce(Frames<'_>) -> Sent) -> Sent {
        match self {
            Outgoing::Frames(frames) => send(frames),
            Outgoing::Judged(judged, room) => put_together(judged, room, send),
        }
    }
}

/// A stage that frames pass on their way to a queue. One worker at a time drives it.
pub(crate) trait EgressStage: Send {
    /// Sends frames on, perhaps changed, or holds them until [`EgressStage::flush`] if [`Next::more`] says so. Returns what
    /// became of these frames.
    fn transmit(&self, frames: Frames<'_>, next: Next<'_>) -> Sent;

    /// Sends held frames.
    fn flush(&self, _next: Next<'_>) -> Sent {
        Sent::default()
    }

    /// Reports whether it sees frames as they are on the wire. Only such stages see the switch's own frames.
    fn is_on_wire(&self) -> bool {
        false
    }

    /// Reports whether frames must not lie in the buffers of the guest that they are for.
    fn needs_private_frames(&self) -> bool {
        false
    }
}

/// A queue that frames go to: the port's half, and the stages before it.
pub(crate) struct Egress {
    pub(crate) half: Box<dyn TxQueue>,
    pub(super) stages: List<dyn EgressStage>,
    /// Made when the first frame comes that is to be completed: few ports ever get one.
    completer: OnceCell<Completer>,
}

impl Egress {
    /// Returns a queue without stages.
    pub(crate) fn new(half: Box<dyn TxQueue>) -> Egress {
        Egress { half, stages: List::new(), completer: OnceCell::new() }
    }

    /// Returns a queue with these stages.
    #[cfg(any(feature = "analysis", test))]
    pub(crate) fn of(half: Box<dyn TxQueue>, stages: impl IntoIterator<Item = Box<dyn EgressStage>>) -> Egress {
        Egress { half, stages: stages.into_iter().collect(), completer: OnceCell::new() }
    }

    /// Sends frames through all stages. There may be `more` in this round. See [`TxQueue::transmit`].
    #[inline(always)]
    pub(crate) fn transmit(&self, frames: Outgoing<'_, '_>, more: bool, watch: &Stopwatch) -> Sent {
        if frames.offloads().is_none() { self.send(frames, more, watch) } else { self.send_left(frames, more, watch) }
    }

    /// Sends frames of which some leave work. Every stage gets complete frames: it reads and changes them, and counts their lengths.
    #[cold]
    fn send_left(&self, frames: Outgoing<'_, '_>, more: bool, watch: &Stopwatch) -> Sent {
        let takes = if self.stages.as_slice().is_empty() { self.half.takes() } else { Offloads::NONE };
        let is_taken = |frames: &Frames<'_>, frame: &Frame<'_>| {
            let needs = frame.offload().needs();
            needs.is_none() || takes.has(needs) && self.half.takes_from(frames, frame)
        };
        let all = frames.in_memory();
        if takes.has(frames.offloads()) && all.as_slice().iter().all(|frame| is_taken(&all, frame)) {
            let sent = self.send(frames, more, watch);
            return Sent { passed_on: (all.left() as u32).min(sent.frames), ..sent };
        }
        let completer = self.completer.get_or_init(Completer::default);
        frames.put_together(|frames| {
            completer.complete(frames, &is_taken, |frames| self.send(Outgoing::Frames(frames), more, watch))
        })
    }

    #[inline(always)]
    fn send(&self, frames: Outgoing<'_, '_>, more: bool, watch: &Stopwatch) -> Sent {
        match (self.stages.as_slice(), frames) {
            ([], Outgoing::Frames(frames)) => self.half.transmit(frames),
            ([], Outgoing::Judged(judged, room)) => self.half.transmit_judged(judged, room),
            // Stages may read frames after they were sent.
            (stages, frames) => {
                frames.put_together(|frames| self.next(stages, more, watch).transmit(frames.only_copied()))
            }
        }
    }

    /// Sends frames of the switch's own, as they are on the wire.
    pub(crate) fn transmit_bare(&self, frames: Frames<'_>, watch: &Stopwatch) -> Sent {
        let stages = self.stages.as_slice();
        let first = stages.iter().position(|placed| placed.stage.is_on_wire()).unwrap_or(stages.len());
        self.next(&stages[first..], false, watch).transmit(frames)
    }

    /// Sends the frames that stages hold.
    pub(crate) fn flush(&self, watch: &Stopwatch) -> Sent {
        let stages = self.stages.as_slice();
        let flush = |(index, placed): (usize, &Placed<dyn EgressStage>)| {
            placed.stage.flush(self.next(&stages[index + 1..], false, watch))
        };
        stages.iter().enumerate().map(flush).fold(Sent::default(), Sent::and)
    }

    /// Returns the half, if no stage comes before it.
    #[inline(always)]
    pub(crate) fn bare(&self) -> Option<&dyn TxQueue> {
        self.stages.as_slice().is_empty().then_some(&*self.half)
    }

    /// Returns the guest behind the queue, if frames may lie in its buffers now.
    #[inline(always)]
    pub(crate) fn guest(&self) -> Option<&GuestBuffers> {
        if self.stages.iter().any(|stage| stage.needs_private_frames()) { None } else { self.half.guest() }
    }

    /// Returns the length from which frames of a guest are sent without being read, if their chains can be kept or they are
    /// exchanged; [`u32::MAX`] if all are read.
    #[inline(always)]
    pub(crate) fn unread_from(&self, can_be_kept: bool) -> u32 {
        match self.half.zero_copy() {
            _ if !self.stages.as_slice().is_empty() => u32::MAX,
            Some(half) if can_be_kept => half.keeps_from(),
            None if self.half.exchanges() => 0,
            _ => u32::MAX,
        }
    }

    fn next<'n>(&'n self, stages: &'n [Placed<dyn EgressStage>], more: bool, watch: &'n Stopwatch) -> Next<'n> {
        Next { stages, half: &*self.half, watch, more }
    }
}

/// The stages behind a stage, and the port's half behind the last.
#[derive(Clone, Copy)]
pub(crate) struct Next<'n> {
    stages: &'n [Placed<dyn EgressStage>],
    half: &'n dyn TxQueue,
    watch: &'n Stopwatch,
    /// Whether more frames may follow in this round.
    pub(crate) more: bool,
}

impl Next<'_> {
    /// Returns the worker's stopwatch.
    pub(super) fn watch(&self) -> &Stopwatch {
        self.watch
    }

    /// Returns the same, if no more frames follow in this round.
    pub(super) fn last(self) -> Self {
        Next { more: false, ..self }
    }

    /// Sends frames on.
    pub(crate) fn transmit(&self, frames: Frames<'_>) -> Sent {
        match self.stages.split_first() {
            Some((first, stages)) => {
                let before = self.watch.enter(first.slot);
                let sent = first.stage.transmit(frames, Next { stages, ..*self });
                self.watch.enter(before);
                sent
            }
            None => {
                let before = self.watch.enter(FORWARD);
                let sent = self.half.transmit(frames);
                self.watch.enter(before);
                sent
            }
        }
    }
}

#[cfg(test)]
mod tests;
