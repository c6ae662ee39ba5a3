//! Where a frame goes: along a patch, or across a bridge, which may go by a controller's flows.

pub mod bridge;
pub(crate) mod flows;
pub mod mac_table;
mod shared;
#[cfg(all(test, not(loom)))]
mod tests;
mod vlan;

use crate::counters::QueueCounters;
use crate::drops::{Drops, Reason};
use crate::port::vhost_user::VhostTransmit;
use crate::port::{Sent, Transmit};
use crate::worker::{Place, Stage, WorkerCounters};
use std::cell::Cell;
use std::sync::Arc;
use virtqueue::Frames;

pub(crate) use shared::{Shared, Stuck};

/// A transmit half as a worker reaches it.
pub(crate) enum Half {
    /// Only this worker sends there.
    Own(Option<Box<dyn Transmit>>),
    /// Several workers send there, one at a time.
    Shared(Arc<Shared>),
}

/// One transmit queue of an output.
pub(crate) struct TransmitQueue {
    pub(crate) half: Half,
    pub(crate) counters: Arc<QueueCounters>,
    /// Something was sent since the peer was notified last.
    touched: Cell<bool>,
    /// Something is held until the round ends.
    holds: Cell<bool>,
}

impl TransmitQueue {
    pub(crate) fn new(half: Half, counters: Arc<QueueCounters>) -> Self {
        TransmitQueue { half, counters, touched: Cell::new(false), holds: Cell::new(false) }
    }

    /// Sends `frames` if the queue is up. There may be `more` in this round.
    #[inline(always)]
    fn transmit(&self, frames: Frames<'_>, more: bool) -> Option<Sent> {
        let send = |half: &dyn Transmit| {
            let sent = if more { half.transmit_more(frames) } else { half.transmit(frames) };
            self.holds.set(self.holds.get() | (sent.held > 0));
            self.count(sent)
        };
        match &self.half {
            Half::Own(half) => half.as_deref().map(send),
            Half::Shared(half) => match half.lock() {
                Ok(half) => half.as_deref().map(send),
                Err(Stuck) => Some(Sent::none(Reason::Stuck)),
            },
        }
    }

    /// Sends what is held.
    #[inline(always)]
    fn flush(&self) -> Sent {
        let flush = |half: &dyn Transmit| self.count(half.flush());
        match &self.half {
            Half::Own(half) => half.as_deref().map(flush),
            Half::Shared(half) => match half.lock() {
                Ok(half) => half.as_deref().map(flush),
                // Some is held, and goes when the half can be had again.
                Err(Stuck) => {
                    self.holds.set(true);
                    None
                }
            },
        }
        .unwrap_or_default()
    }

    #[inline(always)]
    fn count(&self, sent: Sent) -> Sent {
        if sent.frames > 0 {
            self.counters.sent.packets.add(sent.frames.into());
            self.counters.sent.bytes.add(sent.bytes);
            self.touched.set(true);
        }
        sent
    }

    /// Notifies the peer of what was sent.
    #[inline(always)]
    fn notify(&self) {
        match &self.half {
            Half::Own(half) => half.iter().for_each(|h| h.notify()),
            Half::Shared(half) => match half.lock() {
                Ok(half) => half.iter().for_each(|h| h.notify()),
                Err(Stuck) => self.touched.set(true),
            },
        }
    }
}

/// A port as one worker sends to it.
pub(crate) struct Output {
    pub(crate) port: u64,
    pub(crate) queues: Vec<TransmitQueue>,
    pub(crate) drops: Arc<Drops>,
    /// The queue that everything goes through, so that all of it can be joined; otherwise each goes through the queue of
    /// the number of the one that it came from.
    pub(crate) one: Option<usize>,
    /// Several bursts of a round may come here, and it is worth while to join them.
    pub(crate) joins: bool,
    /// The worker, which says that it is here.
    pub(crate) worker: Arc<WorkerCounters>,
}

impl Output {
    /// Sends `frames` through the queue that belongs to `queue`, or through another one if the guest has not enabled
    /// that one. What can't be sent is dropped here, at the port that it was meant for.
    #[inline(always)]
    pub(crate) fn transmit(&self, queue: usize, frames: Frames<'_>) {
        let first = if self.queues.len() == 1 { 0 } else { self.one.unwrap_or(queue) % self.queues.len() };
        self.worker.place.set(Place::of(self.port, first).at(Stage::Transmit));
        let sent = match self.queues[first].transmit(frames, self.joins) {
            Some(sent) => sent,
            None => self.transmit_elsewhere(frames),
        };
        sent.count_drops(frames.len(), &self.drops);
    }

    /// Sends what is held for the end of the round.
    #[inline(always)]
    pub(crate) fn flush(&self) {
        if self.joins {
            for (queue, half) in self.queues.iter().enumerate() {
                if half.holds.take() {
                    self.worker.place.set(Place::of(self.port, queue).at(Stage::Transmit));
                    half.flush().count_drops(0, &self.drops);
                }
            }
        }
    }

    #[cold]
    fn transmit_elsewhere(&self, frames: Frames<'_>) -> Sent {
        let send = |(queue, half): (usize, &TransmitQueue)| {
            self.worker.place.set(Place::of(self.port, queue).at(Stage::Transmit));
            half.transmit(frames, self.joins)
        };
        self.queues.iter().enumerate().find_map(send).unwrap_or(Sent::none(Reason::Down))
    }

    /// Hands chains that were kept by `queue` and are not needed any more to `release`.
    #[inline(always)]
    pub(crate) fn returned(&self, queue: usize, release: &mut dyn FnMut(u16)) {
        match self.queues.get(queue).map(|queue| &queue.half) {
            Some(Half::Own(Some(half))) => half.returned(release),
            Some(Half::Shared(half)) => {
                half.lock().iter().for_each(|half| half.iter().for_each(|half| half.returned(release)))
            }
            _ => {}
        }
    }

    /// Chains are kept by `queue` at present.
    pub(crate) fn keeps(&self, queue: usize) -> bool {
        match self.queues.get(queue).map(|queue| &queue.half) {
            Some(Half::Own(Some(half))) => half.keeps(),
            Some(Half::Shared(half)) => half.lock().is_ok_and(|half| half.as_ref().is_some_and(|half| half.keeps())),
            _ => false,
        }
    }

    /// The guest behind `queue`, if only this worker sends to it and its buffers can be borrowed.
    #[inline(always)]
    pub(crate) fn guest(&self, queue: usize) -> Option<&VhostTransmit> {
        match &self.queues.get(queue)?.half {
            Half::Own(half) => half.as_deref()?.guest(),
            Half::Shared(_) => None,
        }
    }

    #[inline(always)]
    pub(crate) fn notify(&self) {
        for (queue, half) in self.queues.iter().enumerate() {
            if half.touched.take() {
                self.worker.place.set(Place::of(self.port, queue).at(Stage::Notify));
                half.notify();
            }
        }
    }
}

/// Where the frames of an input go.
pub(crate) enum Target {
    /// To this output.
    Patch(usize),
    /// Through this bridge, as from this one of its ports.
    Bridge { bridge: usize, from: usize },
    /// Nowhere.
    Nowhere,
}
