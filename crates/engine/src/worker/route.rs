//! Where the frames of a queue go, and who counts them.

use crate::counters::QueueCounters;
use crate::drops::{Drops, Reason};
use crate::forward::{Arrival, BridgePlan, Output, Scratch, Target};
use crate::monitor::{Place, WorkerCounters};
use crate::queue_id::QueueId;
use crate::stage::egress::Outgoing;
use crate::stage::ingress::IngressStages;
use packet::{Burst, Frames};
use std::sync::Arc;

/// Where the frames that a worker gets from one queue go.
pub(crate) struct Route {
    /// The queue, or the lane.
    pub(crate) from: QueueId,
    /// The same as a worker's place.
    pub(super) place: Place,
    pub(crate) target: Target,
    /// Number by which frames pick a queue: that of the queue that it is mapped to, else its own.
    pub(crate) number: usize,
    pub(crate) counters: Arc<QueueCounters>,
    pub(crate) drops: Arc<Drops>,
}

impl Route {
    /// Returns the way of the frames of a queue, or of a lane. They pick their queues by `number`.
    pub(crate) fn new(
        from: QueueId,
        target: Target,
        number: usize,
        counters: Arc<QueueCounters>,
        drops: Arc<Drops>,
    ) -> Route {
        Route { from, place: Place::of_id(from), target, number, counters, drops }
    }

    #[cold]
    fn count_offloaded(&self, frames: &Frames<'_>) {
        self.counters.received.offloaded.add(frames.left() as u64);
    }
}

/// State needed to forward a burst.
pub(super) struct Routing<'p> {
    pub(super) outputs: &'p [Output],
    pub(super) bridges: &'p [BridgePlan],
    pub(super) now: u32,
    pub(super) counters: &'p WorkerCounters,
}

impl Routing<'_> {
    /// Passes a burst through the stages of its queue, and forwards what comes out of them. Returns the number of frames.
    #[inline(never)]
    pub(super) fn process(
        &self,
        route: &Route,
        stages: &IngressStages,
        burst: &mut Burst<'_, '_>,
        scratch: &mut Scratch,
    ) -> usize {
        let mut count = 0;
        stages.process(burst, &self.counters.watch, &mut |burst| {
            count += self.forward(route, burst.frames(), burst.bytes(), scratch);
        });
        count
    }

    /// Forwards frames, which have this number of bytes together. Returns their number.
    #[inline(always)]
    pub(super) fn forward(&self, route: &Route, frames: Frames<'_>, bytes: u64, scratch: &mut Scratch) -> usize {
        let count = frames.len();
        if count == 0 {
            return 0;
        }
        route.counters.received.burst(count, bytes);
        if !frames.offloads().is_none() {
            route.count_offloaded(&frames);
        }
        self.counters.packets.add(count as u64);
        match route.target {
            Target::Patch(output) => {
                self.outputs[output].transmit(route.number, Outgoing::Frames(frames.exchangeable()))
            }
            Target::Bridge { bridge, from } => {
                let (outputs, now, drops) = (self.outputs, self.now, &*route.drops);
                let arrival = Arrival { frames, from, queue: route.number, now, outputs, drops };
                self.bridges[bridge].forward(arrival, scratch);
            }
            Target::Nowhere => route.drops.add(Reason::Unconnected, count as u64),
        }
        count
    }
}
