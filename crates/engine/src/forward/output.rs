//! A port as one worker sends to it.

use super::flows::LivePortConfig;
use super::transmit_queue::{Half, HalfStep, TransmitQueue};
use crate::drops::{Drops, Reason};
use crate::monitor::{Activity, Place, WorkerCounters};
use crate::port::zero_copy::{GuestBuffers, Timing};
use crate::port::{Sent, TxQueue};
use crate::queue_id::QueueId;
use crate::stage::egress::{Egress, Outgoing};
use crate::stage::running::{Marks, Running};
use crate::stage::shared::Stuck;
use packet::LeasedFrames;
use std::cell::RefCell;
use std::sync::Arc;
use virtqueue::device::Spliced;

/// Terms of an output that a reload may change while the port stays.
#[derive(Clone, Default)]
pub(crate) struct OutputTerms {
    /// Prohibitions of controllers at the port, if it is in a bridge that forwards by flows.
    pub(crate) config: Option<Arc<LivePortConfig>>,
    /// Number by which all traffic picks its queue, so that all of it can be joined. If `None`, each frame goes by the
    /// number of the queue that it came from.
    pub(crate) one: Option<usize>,
}

impl PartialEq for OutputTerms {
    fn eq(&self, other: &OutputTerms) -> bool {
        self.config.as_ref().map(Arc::as_ptr) == other.config.as_ref().map(Arc::as_ptr) && self.one == other.one
    }
}

/// A port as one worker sends to it.
pub(crate) struct Output {
    pub(crate) port: u64,
    /// Index of the first of these queues in the port: not zero if the worker sends to one queue only.
    pub(crate) first: usize,
    pub(crate) queues: Vec<TransmitQueue>,
    /// The queues that are up.
    pub(crate) running: Arc<Running>,
    pub(crate) drops: Arc<Drops>,
    pub(crate) terms: OutputTerms,
    /// Whether the port aggregates.
    pub(crate) aggregates: bool,
    /// Whether several bursts of a round may come here and be joined.
    pub(crate) joins: bool,
    /// Frames that another worker sends. `None` if there is no such worker, or it has not said where frames may lie.
    handed: RefCell<Option<LeasedFrames>>,
    /// Queues that have sent frames since their peer was last notified.
    touched: Marks,
    /// Queues that hold frames until the round ends.
    holding: Marks,
    /// The worker, whose place is updated here.
    pub(crate) worker: Arc<WorkerCounters>,
}

impl Output {
    /// Returns an output that does not aggregate.
    pub(crate) fn new(port: u64, queues: Vec<TransmitQueue>, worker: Arc<WorkerCounters>) -> Output {
        Output {
            port,
            first: 0,
            queues,
            running: Arc::default(),
            drops: Arc::default(),
            terms: OutputTerms::default(),
            aggregates: false,
            joins: false,
            handed: RefCell::default(),
            touched: Marks::default(),
            holding: Marks::default(),
            worker,
        }
    }

    /// Returns an output that nothing is sent to, for a slot that is free.
    pub(crate) fn empty() -> Output {
        Output::new(0, Vec::new(), Arc::default())
    }

    /// Returns the halves that only this worker has, by queue.
    pub(crate) fn own(&mut self) -> impl Iterator<Item = (QueueId, &mut Egress)> {
        let (port, first) = (self.port, self.first);
        self.queues.iter_mut().enumerate().filter_map(move |(index, queue)| match &mut queue.half {
            Half::Own(egress) => Some((QueueId::new(port, first + index), egress)),
            _ => None,
        })
    }

    /// Takes a step at a queue, which has this index in the port. Returns the half that only this worker had, if that is taken. Fails if
    /// another worker still holds it.
    pub(crate) fn step(&mut self, queue: usize, step: HalfStep) -> Result<Option<(QueueId, Egress)>, Stuck> {
        let own = &mut self.queues[queue - self.first];
        let taken = own.step(step)?;
        match &own.half {
            Half::Own(_) => self.running.set(queue, true),
            // A worker that did not respond for a while may have set it only now.
            Half::Down => self.running.set(queue, false),
            Half::Shared(_) | Half::HandedOver => {}
        }
        Ok(taken.map(|egress| (QueueId::new(self.port, queue), egress)))
    }

    /// Sends `frames`, which came from queue `number`, through one of the queues that are up. Counts frames that cannot
    /// be sent as drops at this port.
    #[inline(always)]
    pub(crate) fn transmit(&self, number: usize, frames: Outgoing<'_, '_>) {
        let count = frames.len();
        if !self.sends() {
            return self.drops.add(Reason::NoSend, count as u64);
        }
        let queue = self.pick(number);
        if let Half::HandedOver = self.queues[queue].half {
            return self.hand_over(frames);
        }
        self.worker.place.set(Place::of(self.port, self.first + queue).at(Activity::Transmit));
        let sent = self.queues[queue].transmit(frames, self.joins, &self.worker.watch);
        self.mark(queue, sent).count_drops(count, &self.drops);
    }

    /// Returns the place of the queue that sends frames of queue `number`.
    #[inline(always)]
    fn pick(&self, number: usize) -> usize {
        if self.queues.len() == 1 { 0 } else { self.running.pick(self.terms.one.unwrap_or(number)) }
    }

    /// Reports whether a queue is up, as far as the worker knows.
    pub(crate) fn is_up(&self) -> bool {
        self.queues.iter().any(|queue| !matches!(queue.half, Half::Down))
    }

    /// Reports whether the port is live: a port that must not forward may be.
    pub(crate) fn is_live(&self) -> bool {
        self.running.is_any() && self.terms.config.as_ref().is_none_or(|config| config.get().may_be_live())
    }

    /// Reports whether controllers allow to send.
    #[inline(always)]
    fn sends(&self) -> bool {
        self.terms.config.as_ref().is_none_or(|config| config.get().sends())
    }

    /// Reports whether controllers allow to receive at the port.
    #[inline(always)]
    pub(crate) fn receives(&self) -> bool {
        self.terms.config.as_ref().is_none_or(|config| config.get().receives())
    }

    /// Reports whether controllers want to be shown what the port receives and no flow matches.
    pub(crate) fn shows_misses(&self) -> bool {
        self.terms.config.as_ref().is_none_or(|config| config.get().shows_misses())
    }

    /// Adds frames to those that another worker sends.
    #[inline(never)]
    fn hand_over(&self, frames: Outgoing<'_, '_>) {
        let count = frames.len();
        let sent = frames.put_together(|frames| match &mut *self.handed.borrow_mut() {
            Some(handed) => {
                handed.add(frames);
                Sent { frames: frames.len() as u32, ..Sent::default() }
            }
            None => Sent::none(Reason::Down),
        });
        sent.count_drops(count, &self.drops);
    }

    /// Sets the room for frames that another worker sends. Drops those that wait in the room that there was.
    pub(crate) fn set_handed(&self, room: Option<LeasedFrames>) {
        if let Some(had) = self.handed.replace(room)
            && !had.is_empty()
        {
            self.drops.add(Reason::Down, had.len() as u64);
        }
    }

    /// Exchanges the frames that another worker sends for `room`, if there are any.
    #[inline(always)]
    pub(crate) fn swap_handed(&self, room: &mut LeasedFrames) {
        if let Some(handed) = &mut *self.handed.borrow_mut()
            && !handed.is_empty()
        {
            std::mem::swap(handed, room);
        }
    }

    #[inline(always)]
    fn mark(&self, queue: usize, sent: Sent) -> Sent {
        // Of a packet in fragments, some may have gone.
        if sent.frames > 0 || sent.bytes > 0 {
            self.touched.set(queue);
        }
        if sent.held > 0 {
            self.holding.set(queue);
        }
        sent
    }

    /// Sends frames held for the end of the round.
    #[inline(always)]
    pub(crate) fn flush(&self) {
        self.holding.take_each(|queue| {
            self.worker.place.set(Place::of(self.port, self.first + queue).at(Activity::Transmit));
            match self.queues[queue].flush(&self.worker.watch) {
                Ok(sent) => self.mark(queue, sent).count_drops(0, &self.drops),
                // Tried again when the queue is available.
                Err(Stuck) => self.holding.set(queue),
            }
        });
    }

    /// Returns a queue by its index in the port.
    #[inline(always)]
    fn at(&self, queue: usize) -> Option<&TransmitQueue> {
        self.queues.get(queue.wrapping_sub(self.first))
    }

    /// Moves frames of queue `number` to `queue` by `splice`, if this worker alone sends them there as they come. Counts them.
    #[inline(always)]
    pub(crate) fn splice(&self, queue: usize, number: usize, splice: impl FnOnce(&dyn TxQueue) -> Spliced) -> Spliced {
        let index = self.pick(number);
        let Some(to) = self.queues.get(index).filter(|_| self.first + index == queue && self.sends()) else {
            return Spliced::NOTHING;
        };
        let done = match &to.half {
            Half::Own(egress) => egress.bare().map_or(Spliced::NOTHING, splice),
            _ => Spliced::NOTHING,
        };
        if done.frames > 0 {
            to.counters.sent.packets.add(done.frames.into());
            to.counters.sent.bytes.add(done.bytes);
        }
        if done.is_any() {
            self.touched.set(index);
        }
        done
    }

    /// Passes chains that `queue` kept and no longer needs to `release`.
    #[inline(always)]
    pub(crate) fn returned(&self, queue: usize, release: &mut dyn FnMut(&[u16])) {
        match self.at(queue).map(|queue| &queue.half) {
            Some(Half::Own(egress)) => egress.half.zero_copy().into_iter().for_each(|half| half.returned(release)),
            Some(Half::Shared(shared)) => shared
                .lock()
                .iter()
                .flat_map(|egress| egress.iter())
                .filter_map(|egress| egress.half.zero_copy())
                .for_each(|half| half.returned(release)),
            _ => {}
        }
    }

    /// Returns the length from which frames of queue `number` are sent without anybody reading them, if only this worker sends
    /// there: by the queue `mapped`, if they may be kept, or else because they are exchanged.
    #[inline(always)]
    pub(crate) fn unread_from(&self, number: usize, mapped: Option<usize>) -> u32 {
        let queue = mapped.map_or_else(|| self.queues.get(self.pick(number)), |queue| self.at(queue));
        match queue.map(|queue| &queue.half) {
            Some(Half::Own(egress)) => egress.unread_from(mapped.is_some()),
            _ => u32::MAX,
        }
    }

    /// Returns the times of bursts that `queue` sends from a guest's memory, if only this worker sends there.
    #[inline(always)]
    pub(crate) fn timing(&self, queue: usize) -> Option<&Timing> {
        match &self.at(queue)?.half {
            Half::Own(egress) => egress.half.zero_copy()?.timing(),
            Half::Down | Half::Shared(_) | Half::HandedOver => None,
        }
    }

    /// Reports whether `queue` keeps chains.
    pub(crate) fn keeps(&self, queue: usize) -> bool {
        match self.at(queue).map(|queue| &queue.half) {
            Some(Half::Own(egress)) => egress.half.zero_copy().is_some_and(|half| half.keeps()),
            Some(Half::Shared(shared)) => shared.lock().is_ok_and(|egress| {
                egress.as_ref().is_some_and(|egress| egress.half.zero_copy().is_some_and(|half| half.keeps()))
            }),
            _ => false,
        }
    }

    /// Returns the guest behind `queue`, if only this worker sends to it and its buffers can be borrowed.
    #[inline(always)]
    pub(crate) fn guest(&self, queue: usize) -> Option<&GuestBuffers> {
        match &self.at(queue)?.half {
            Half::Own(egress) => egress.guest(),
            Half::Down | Half::Shared(_) | Half::HandedOver => None,
        }
    }

    #[inline(always)]
    pub(crate) fn notify(&self) {
        self.touched.take_each(|queue| {
            self.worker.place.set(Place::of(self.port, self.first + queue).at(Activity::Notify));
            if self.queues[queue].notify().is_err() {
                self.touched.set(queue);
            }
        });
    }
}
