//! Rounds of queues that several workers share: as a parent, and by lanes.

use super::parts::{LaneInput, ParentInput};
use super::plan::{Plan, SAMPLE};
use super::route::Routing;
use crate::monitor::{Activity, Place};
use crate::stage::egress::Outgoing;
use crate::stage::stopwatch::{FORWARD, PUBLISH, RECEIVE, RECYCLE, RELEASE};
use packet::{Burst, Frames};

impl Plan {
    /// Makes a round of all shared queues. Reports whether anything moved.
    #[inline(never)]
    pub(super) fn shared_round(&mut self, now: u64) -> bool {
        let mut moved = false;
        for index in 0..self.shared.parents.len() {
            moved |= self.parent_round(index, now);
        }
        for index in 0..self.shared.lanes.len() {
            moved |= self.lane_round(index);
        }
        moved
    }

    /// Sends what workers have completed, and receives.
    fn parent_round(&mut self, index: usize, now: u64) -> bool {
        let (counters, outputs) = (&*self.counters, &self.outputs);
        let input = &mut self.shared.parents[index];
        let returned = input.take_returned(outputs);
        let guest = input.guest(outputs);
        let ParentInput { queue, parent, outputs: to, number, .. } = input;
        let number = *number;
        let here = Place::of_id(*queue);
        let sample = self.bursts.is_multiple_of(SAMPLE);
        counters.place.set(here.at(Activity::Release));
        if sample {
            counters.watch.start(RELEASE, self.cycles.now());
        }
        let released = parent
            .release(now, guest, &mut |output, frames| outputs[to[output]].transmit(number, Outgoing::Frames(frames)));
        if sample {
            match released.batches {
                0 => counters.watch.cancel(),
                _ => counters.watch.stop(),
            }
            counters.released.add(released.frames as u64);
        }
        counters.place.set(here.at(Activity::Receive));
        let began = if sample { self.cycles.now() } else { 0 };
        let received = parent.receive(guest, &mut self.storage);
        if sample && received > 0 {
            counters.watch.start(PUBLISH, began);
            counters.watch.stop();
        }
        let moved = returned || released.batches > 0 || received > 0;
        self.bursts = self.bursts.wrapping_add(moved.into());
        moved
    }

    /// Claims frames, and processes them.
    fn lane_round(&mut self, index: usize) -> bool {
        let Plan { shared, outputs, bridges, counters, storage, scratch, .. } = self;
        let LaneInput { route, lane, stages, outputs: own } = &mut shared.lanes[index];
        let (place, watch) = (&counters.place, &counters.watch);
        let routing = Routing { outputs, bridges, now: self.second, counters };
        place.set(route.place.at(Activity::Receive));
        let Some(at_once) = stages.turn() else { return false };
        let sample = self.bursts.is_multiple_of(SAMPLE);
        let began = if sample { self.cycles.now() } else { 0 };
        let Some(mut claimed) = lane.claim(storage) else {
            let is_due = stages.is_due();
            if is_due {
                // Frames that it hands over leave with its next batch.
                routing.process(route, stages, &mut storage.start(), scratch);
            }
            return is_due;
        };
        self.bursts = self.bursts.wrapping_add(1);
        if sample {
            watch.start(RECEIVE, began);
            watch.enter(FORWARD);
        }
        place.set(route.place.at(Activity::Forward));
        let (frames, handed) = claimed.frames();
        let mut count = 0;
        for group in frames.groups() {
            if stages.is_empty() {
                count += routing.forward(route, group, frames.bytes(), scratch);
            } else {
                let mut burst = storage.start();
                add_all(&mut burst, &group);
                count += routing.process(route, stages, &mut burst, scratch);
            }
        }
        for (&output, handed) in own.iter().zip(handed) {
            outputs[output].swap_handed(handed);
        }
        if sample {
            watch.enter(RECYCLE);
        }
        place.set(route.place.at(Activity::Recycle));
        claimed.complete(stages.mix(), at_once);
        if sample {
            watch.stop();
            counters.sampled.add(count as u64);
        }
        true
    }
}

/// Adds frames to a burst that has room for them.
fn add_all<'q>(burst: &mut Burst<'_, 'q>, frames: &Frames<'q>) {
    for frame in frames.as_slice() {
        // They were of one burst before, so their segments fit.
        let _fits = burst.push_rebuilt(frame, 0, frames.segments(frame));
        debug_assert!(_fits);
    }
}
