//! A transmit queue of a port, as one worker sends to it.

use crate::counters::QueueCounters;
use crate::drops::Reason;
use crate::port::Sent;
use crate::stage::egress::{Egress, Outgoing};
use crate::stage::shared::{Shared, Stuck};
use crate::stage::stopwatch::Stopwatch;
use std::sync::Arc;

/// A queue that frames go to, as a worker reaches it.
pub(crate) enum Half {
    /// It is down, as far as this worker knows.
    Down,
    /// Only this worker sends there.
    Own(Egress),
    /// Several workers send there, one at a time.
    Shared(Arc<Shared>),
    /// Another worker sends what this one hands over.
    HandedOver,
}

/// A step of the control side, by which the worker reaches a queue in another way.
pub(crate) enum HalfStep {
    /// The worker sends there by this half.
    Set(Half),
    /// The worker no longer sends there. A half that only it had is taken from it.
    Take,
    /// The half that only the worker had is put here, for others to use as well.
    Share(Arc<Shared>),
    /// The half that the worker shared becomes its own, as no other worker sends there any more.
    Own,
}

/// One transmit queue of an output.
pub(crate) struct TransmitQueue {
    pub(crate) half: Half,
    pub(crate) counters: Arc<QueueCounters>,
}

impl TransmitQueue {
    /// Takes a step. Returns the half that only this worker had, if that is taken. Fails if another worker still holds it.
    pub(super) fn step(&mut self, step: HalfStep) -> Result<Option<Egress>, Stuck> {
        let had = std::mem::replace(&mut self.half, Half::Down);
        match (step, had) {
            (HalfStep::Set(half), _) => self.half = half,
            (HalfStep::Take, Half::Own(egress)) => return Ok(Some(egress)),
            // It was to become this worker's own, but another one held it.
            (HalfStep::Take, Half::Shared(shared)) => {
                let taken = shared.lock().map(|mut slot| slot.take());
                if taken.is_err() {
                    self.half = Half::Shared(shared);
                }
                return taken;
            }
            (HalfStep::Take, had) => self.half = had,
            (HalfStep::Share(shared), Half::Own(egress)) => {
                // Nobody else has it yet.
                if let Ok(mut slot) = shared.lock() {
                    *slot = Some(egress);
                }
                self.half = Half::Shared(shared);
            }
            (HalfStep::Share(shared), _) => self.half = Half::Shared(shared),
            (HalfStep::Own, Half::Shared(shared)) => {
                let egress = shared.lock().ok().and_then(|mut slot| slot.take());
                self.half = egress.map_or(Half::Shared(shared), Half::Own);
            }
            (HalfStep::Own, had) => self.half = had,
        }
        Ok(None)
    }

    /// Sends `frames` if the queue is up. There may be `more` in this round.
    #[inline(always)]
    pub(super) fn transmit(&self, frames: Outgoing<'_, '_>, more: bool, watch: &Stopwatch) -> Sent {
        let send = |egress: &Egress| self.count(egress.transmit(frames, more, watch));
        match &self.half {
            Half::Own(egress) => Some(send(egress)),
            Half::Shared(shared) => match shared.lock() {
                Ok(egress) => egress.as_ref().map(send),
                Err(Stuck) => Some(Sent::none(Reason::Stuck)),
            },
            Half::Down | Half::HandedOver => None,
        }
        .unwrap_or(Sent::none(Reason::Down))
    }

    /// Sends held frames.
    #[inline(always)]
    pub(super) fn flush(&self, watch: &Stopwatch) -> Result<Sent, Stuck> {
        let flush = |egress: &Egress| self.count(egress.flush(watch));
        let sent = match &self.half {
            Half::Own(egress) => Some(flush(egress)),
            Half::Shared(shared) => shared.lock()?.as_ref().map(flush),
            Half::Down | Half::HandedOver => None,
        };
        Ok(sent.unwrap_or_default())
    }

    #[inline(always)]
    fn count(&self, sent: Sent) -> Sent {
        sent.count(&self.counters);
        sent
    }

    /// Notifies the peer of what was sent.
    #[inline(always)]
    pub(super) fn notify(&self) -> Result<(), Stuck> {
        match &self.half {
            Half::Own(egress) => egress.half.notify(),
            Half::Shared(shared) => shared.lock()?.iter().for_each(|egress| egress.half.notify()),
            Half::Down | Half::HandedOver => {}
        }
        Ok(())
    }
}
