//! The parent of a shared queue: it alone talks to the device.

use super::batch::Batch;
use super::prepare::prepare;
use super::terms::Terms;
use crate::drops::{Drops, Reason};
use crate::port::zero_copy::{GuestBuffers, Source, ZeroCopyRx};
use crate::port::{ReceiveHalf, RxQueue, Wait};
use handover::Alarm;
use packet::{BurstStorage, Frames, MAX_BURST};
use roles::Outcome;
use std::sync::Arc;
use std::time::Duration;
use vhost_user::Event;

/// Rounds between two looks for a worker that has stalled: a look reads a line that all workers write.
const LOOK_ROUNDS: u32 = 64;

/// Interval at which a parent that sleeps looks for batches that workers give back.
const PAUSE: Duration = Duration::from_micros(50);

/// The parent of a shared queue.
pub(crate) struct Parent {
    half: ReceiveHalf,
    batches: roles::Parent<Batch>,
    /// Whether it receives nothing more, so that all batches come back.
    is_resting: bool,
    stalled_after: u64,
    /// Maximum number of frames in a batch: stages of lanes may take them apart.
    at_once: usize,
    rounds: u32,
    /// The oldest batch if a worker holds it, and the count of cycles at which it was first seen there.
    front: Option<(u64, u64)>,
    drops: Arc<Drops>,
    alarms: Vec<Arc<Alarm>>,
}

/// Batches that came back to a parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Released {
    pub(crate) batches: usize,
    /// Frames received in these batches.
    pub(crate) frames: usize,
}

impl Parent {
    pub(super) fn new(half: ReceiveHalf, batches: roles::Parent<Batch>, terms: Terms) -> Parent {
        let Terms { stalled_after, drops, alarms, .. } = terms;
        Parent {
            half,
            batches,
            is_resting: false,
            stalled_after,
            at_once: MAX_BURST,
            rounds: 0,
            front: None,
            drops,
            alarms,
        }
    }

    /// Releases the batches that workers have completed, and passes the frames that they handed over to `send`, with the index of
    /// the lane's output. Frames may have been received into the buffers of `guest`.
    #[inline]
    pub(crate) fn release(
        &mut self,
        now: u64,
        guest: Option<&GuestBuffers>,
        send: &mut dyn FnMut(usize, Frames<'_>),
    ) -> Released {
        let Parent { half, batches, drops, at_once, .. } = self;
        let holds = half.holds();
        let lends = guest.zip(half.zero_copy());
        let (mut frames, mut mix) = (0, None);
        let released = batches.release(|batch, outcome| {
            frames += batch.frames.len();
            *at_once = batch.at_once;
            mix = batch.mix.map(|new| new.and(mix.unwrap_or_default())).or(mix);
            // If this fails, the guest is not the one that posted them.
            let _are_back = guest.is_some_and(|guest| guest.take_up(&mut batch.aside));
            match outcome {
                Outcome::Complete => batch.send(send),
                Outcome::Late => drops.add(Reason::WorkerStalled, batch.handed() as u64),
                Outcome::Abandoned => drops.add(Reason::WorkerStalled, batch.frames.len() as u64),
            }
            holds.into_iter().for_each(|holds| holds.give_back(&batch.held));
            if let Some((guest, lend)) = lends {
                lend.relend(guest);
            }
            batch.clear();
        });
        if released > 0 {
            self.front = None;
            match lends {
                Some((guest, lend)) => {
                    if let Some(mix) = mix {
                        // The guest got the packets of all these batches at once, and may need to keep more buffers, or fewer.
                        lend.adapt(mix);
                        lend.relend(guest);
                    }
                }
                None => half.recycle(),
            }
        }
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(LOOK_ROUNDS) {
            self.look(now);
        }
        Released { batches: released, frames }
    }

    /// Receives bursts until the device has no more, or no batch is free: into the buffers of `guest`, too, if there is one. Returns
    /// the number of frames.
    #[inline]
    pub(crate) fn receive(&mut self, guest: Option<&GuestBuffers>, storage: &mut BurstStorage) -> usize {
        let Parent { half, batches, is_resting, at_once, .. } = self;
        let lent = half.zero_copy().zip(guest);
        let source = Source::new(&**half, lent);
        let mut received = 0;
        while !*is_resting
            && let Some(holds) = half.holds()
            && let Some(mut batch) = batches.free()
        {
            let mut burst = storage.start();
            burst.limit(*at_once);
            if !source.receive(&mut burst) {
                source.idle();
                break;
            }
            received += burst.len();
            let is_full = burst.is_full();
            batch.frames.add(burst.frames());
            holds.hold(&mut batch.held);
            if let Some((_, guest)) = lent {
                // A free batch has none aside, and nothing was delivered since these frames were received.
                let _is_aside = guest.set_aside(&mut batch.aside);
                debug_assert!(_is_aside);
            }
            source.recycle();
            // Without a frame, it holds buffers whose frames were dropped: they come back with the batch as well.
            batch.publish();
            if !is_full {
                // There are no more, or these have cost as much as a round may.
                break;
            }
        }
        received
    }

    /// Goes on without the oldest batch if its worker has held it for too long.
    #[cold]
    fn look(&mut self, now: u64) {
        self.front = match (self.batches.oldest(), self.front) {
            (Some(number), Some((known, since))) if known == number => {
                if now.wrapping_sub(since) > self.stalled_after && self.batches.leave_behind() {
                    None
                } else {
                    self.front
                }
            }
            (oldest, _) => oldest.map(|number| (number, now)),
        };
    }

    /// Wakes workers that sleep, and notifies the device of returned buffers. There was a full fence since the last call of
    /// [`Parent::receive`].
    #[inline]
    pub(crate) fn notify(&self) {
        if self.batches.outstanding() > 0 {
            self.alarms.iter().for_each(|alarm| alarm.ring());
        }
        self.half.notify();
    }

    /// Receives nothing more, for good. Reports whether all batches have come back.
    pub(crate) fn rest(&mut self) -> bool {
        self.is_resting = true;
        self.batches.outstanding() == 0
    }

    /// Takes back what workers have completed since nobody sends it any more, and counts it as dropped. Reports whether all batches
    /// have come back.
    pub(crate) fn give_up(&mut self) -> bool {
        let drops = self.drops.clone();
        self.release(0, None, &mut |_, frames| drops.add(Reason::Down, frames.len() as u64));
        self.rest()
    }

    /// Returns the half, once all batches have come back.
    pub(crate) fn into_half(self) -> ReceiveHalf {
        debug_assert_eq!(self.batches.outstanding(), 0, "a worker may read frames still");
        let mut half = self.half;
        prepare(&mut half, false);
        half
    }

    /// Returns the half, if it can receive into a guest's buffers now.
    #[inline]
    pub(crate) fn lends(&self) -> Option<&dyn ZeroCopyRx> {
        self.half.zero_copy()
    }

    /// Returns the half.
    pub(crate) fn half(&self) -> &dyn RxQueue {
        &*self.half
    }

    /// Replaces the descriptor that the parent's worker waits for.
    pub(crate) fn rewire(&mut self, kick: Option<Event>) {
        if let Some(half) = self.half.life_cycle() {
            half.rewire(kick);
        }
    }

    /// Asks for notifications, and returns the condition to wait for.
    pub(crate) fn arm(&self) -> Wait {
        let waits = self.batches.outstanding() > 0;
        self.half.arm().or_after(waits.then_some(PAUSE))
    }

    /// Asks no longer for notifications.
    pub(crate) fn disarm(&self) {
        self.half.disarm();
    }
}
