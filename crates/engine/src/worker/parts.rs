//! Parts of queues that several workers share, as one of these has them: a parent, and lanes.

use super::input::OutputQueue;
use super::route::Route;
use crate::forward::Output;
use crate::monitor::{Activity, CurrentPlace, Place};
use crate::port::Wait;
use crate::port::zero_copy::GuestBuffers;
use crate::queue_id::QueueId;
use crate::sharing::{Lane, Parent};
use crate::stage::ingress::IngressStages;

/// A shared queue whose parent the worker is.
pub(crate) struct ParentInput {
    pub(crate) queue: QueueId,
    pub(crate) parent: Parent,
    /// The worker's outputs to which it sends what lanes hand over, in the order of the lanes' outputs.
    pub(crate) outputs: Vec<usize>,
    /// Number by which frames pick a queue.
    pub(crate) number: usize,
    /// The queue whose guest lends its buffers to this one, if it is mapped, and lanes leave frames in place.
    pub(crate) rx_buffers_from: Option<OutputQueue>,
    /// The queue that may have kept chains of this one when one worker polled it, if it is mapped.
    pub(crate) tx_in_place_via: Option<OutputQueue>,
}

impl ParentInput {
    /// Takes back chains that an output kept, and returns them. Reports whether there were any.
    pub(super) fn take_returned(&self, outputs: &[Output]) -> bool {
        let half = self.parent.half();
        let any = self.tx_in_place_via.is_some_and(|via| via.take_returned(half, outputs));
        if any {
            half.recycle();
        }
        any
    }

    /// Returns the guest whose buffers it receives into, if there is one now.
    #[inline]
    pub(super) fn guest<'p>(&self, outputs: &'p [Output]) -> Option<&'p GuestBuffers> {
        let OutputQueue { output, queue } = self.rx_buffers_from?;
        self.parent.lends()?;
        outputs[output].guest(queue)
    }
}

/// A shared queue of which the worker processes frames.
pub(crate) struct LaneInput {
    pub(crate) route: Route,
    pub(crate) lane: Lane,
    pub(crate) stages: IngressStages,
    /// The lane's outputs, which hand over frames that they may not send.
    pub(crate) outputs: Vec<usize>,
}

/// The shared queues of a worker.
#[derive(Default)]
pub(crate) struct SharedInputs {
    pub(crate) parents: Vec<ParentInput>,
    pub(crate) lanes: Vec<LaneInput>,
}

impl SharedInputs {
    /// Reports whether there are none.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.parents.is_empty() && self.lanes.is_empty()
    }

    /// Wakes workers for what parents have published, and notifies the devices, after a full fence.
    #[inline(never)]
    pub(super) fn notify(&mut self, place: &CurrentPlace) {
        for ParentInput { queue, parent, .. } in &self.parents {
            place.set(Place::of_id(*queue).at(Activity::Notify));
            parent.notify();
        }
        for LaneInput { route, lane, .. } in &mut self.lanes {
            place.set(route.place.at(Activity::Notify));
            lane.notify();
        }
    }

    /// Asks to be woken, and returns the conditions to wait for.
    pub(super) fn arm(&self) -> impl Iterator<Item = Wait> {
        let parents = self.parents.iter().map(|input| input.parent.arm());
        let lanes = self.lanes.iter().map(|input| input.lane.arm().or_after(input.stages.due()));
        parents.chain(lanes)
    }

    /// Asks no longer to be woken.
    pub(super) fn disarm(&self) {
        self.parents.iter().for_each(|input| input.parent.disarm());
        self.lanes.iter().for_each(|input| input.lane.disarm());
    }
}
