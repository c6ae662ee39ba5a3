//! Mirrors: copies of a port's frames for another port.
//!
//! The frames themselves are not delayed: a copy that the other port does not take at once is dropped, and counted there.
//! Both ports get the same headers, even if a guest changes them meanwhile.

use super::running::Running;
use super::shared::{Shared, Stuck};
use super::stopwatch::Stopwatch;
use super::taking::Taking;
use super::{egress, ingress};
use crate::counters::QueueCounters;
use crate::drops::{Drops, Reason};
use crate::port::Sent;
use crate::spec::{MirrorDirection, MirrorPoint};
use egress::{EgressStage, Outgoing};
use ingress::IngressStage;
use packet::{Burst, Frames};
use std::cell::RefCell;
use std::sync::Arc;
use virtqueue::ordering;

/// A port that copies go to. Several workers may send there.
pub(crate) struct Probe {
    queues: Vec<(Arc<Shared>, Arc<QueueCounters>)>,
    running: Arc<Running>,
    drops: Arc<Drops>,
}

impl Probe {
    /// Returns a port with these queues, of which `running` are up. Copies that they do not take are counted in `drops`.
    pub(crate) fn new(
        queues: Vec<(Arc<Shared>, Arc<QueueCounters>)>,
        running: Arc<Running>,
        drops: Arc<Drops>,
    ) -> Probe {
        Probe { queues, running, drops }
    }

    /// Sends copies of frames that pass queue `number` of a mirrored port.
    fn copy(&self, number: usize, frames: Frames<'_>, watch: &Stopwatch) {
        let (shared, counters) = &self.queues[self.running.pick(number)];
        let sent = match shared.lock() {
            Ok(egress) => egress.as_ref().map_or(Sent::none(Reason::Down), |egress| {
                let sent = egress.transmit(Outgoing::Frames(frames), false, watch);
                sent.count(counters);
                if sent.frames > 0 {
                    // The queue is not one of the worker's outputs, which the end of its round notifies.
                    ordering::before_asking();
                    egress.half.notify();
                }
                sent
            }),
            Err(Stuck) => Sent::none(Reason::Stuck),
        };
        sent.count_drops(frames.len(), &self.drops);
    }
}

/// A mirror of a port: which frames are copied, where, and to which port.
#[derive(Clone)]
pub(crate) struct MirrorTo {
    pub(crate) direction: MirrorDirection,
    pub(crate) at: MirrorPoint,
    pub(crate) to: Arc<Probe>,
}

impl PartialEq for MirrorTo {
    fn eq(&self, other: &MirrorTo) -> bool {
        (self.direction, self.at) == (other.direction, other.at) && Arc::ptr_eq(&self.to, &other.to)
    }
}

/// Mirror of a queue, in one direction.
pub(crate) struct Mirror {
    queue: usize,
    at: MirrorPoint,
    to: Vec<Arc<Probe>>,
    taking: RefCell<Taking>,
}

impl Mirror {
    /// Name of the stage.
    pub(crate) const NAME: &str = "mirror";

    /// Returns the mirror of `queue` by those mirrors that copy frames of this direction at this point.
    pub(crate) fn of(
        mirrors: &[MirrorTo],
        direction: MirrorDirection,
        at: MirrorPoint,
        queue: usize,
        drops: &Arc<Drops>,
    ) -> Option<Box<Mirror>> {
        let copies = |mirror: &&MirrorTo| mirror.direction == MirrorDirection::Both || mirror.direction == direction;
        let here = mirrors.iter().filter(|mirror| mirror.at == at).filter(copies);
        let to: Vec<_> = here.map(|mirror| mirror.to.clone()).collect();
        (!to.is_empty()).then(|| Box::new(Mirror { queue, at, to, taking: Taking::new(drops.clone()).into() }))
    }

    fn copy(&self, frames: Frames<'_>, watch: &Stopwatch) {
        if !frames.is_empty() {
            self.to.iter().for_each(|probe| probe.copy(self.queue, frames, watch));
        }
    }
}

impl IngressStage for Mirror {
    fn process(&self, burst: &mut Burst<'_, '_>, next: &mut ingress::Next<'_>) {
        let mut taking = self.taking.borrow_mut();
        let mut burst = taking.take(burst.frames());
        self.copy(burst.frames(), next.watch());
        next.pass(&mut burst);
    }
}

impl EgressStage for Mirror {
    fn transmit(&self, frames: Frames<'_>, next: egress::Next<'_>) -> Sent {
        let mut taking = self.taking.borrow_mut();
        let burst = taking.take(frames);
        self.copy(burst.frames(), next.watch());
        let refused = (frames.len() - burst.len()) as u32;
        let sent = next.transmit(burst.frames());
        Sent { counted: sent.counted + refused, ..sent }
    }

    fn is_on_wire(&self) -> bool {
        self.at == MirrorPoint::Wire
    }
}
