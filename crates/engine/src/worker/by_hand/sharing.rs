//! Workers by hand that share a receive queue.

use super::{ByHand, InPlace};
use crate::forward::{Half, Output, Target, TransmitQueue};
use crate::port::sink::{Nothing, Sink};
use crate::port::{RxQueue, TxQueue};
use crate::queue_id::QueueId;
use crate::sharing::{Lane, LockedQueue, Terms, assign};
use crate::stage::egress::Egress;
use crate::stage::ingress::IngressStages;
use crate::stage::shared::Shared;
use crate::worker::{Change, LaneInput, ParentInput, Route};
use handover::Alarm;
use rustix::event::{EventfdFlags, eventfd};
use std::sync::Arc;

/// The queue that is shared.
const QUEUE: QueueId = QueueId::new(0, 0);

/// Role of a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It only receives and sends.
    Parent,
    /// It is one of the workers, too.
    WorkingParent,
}

impl ByHand {
    /// Returns workers that share `input` by static roles: its parent, and as many with a lane each as there are `lanes`. They hand over to
    /// the parent, which sends to `output`. A parent that works has the first lane; otherwise it is one more.
    ///
    /// # Panics
    /// If the frames of `input` cannot be held.
    pub fn static_role(input: Box<dyn RxQueue>, output: Box<dyn TxQueue>, lanes: usize, role: Role) -> Vec<ByHand> {
        let wake = || Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd"));
        let alarms = (0..lanes).map(|_| Arc::new(Alarm::new(wake()))).collect();
        let terms = Terms { outputs: 1, stalled_after: u64::MAX, drops: Arc::default(), alarms };
        let Ok((parent, lanes)) = assign(input, terms) else { panic!("its frames cannot be held") };
        let mut first = ByHand::new(Box::new(Nothing), output, InPlace::Never);
        let parent = ParentInput {
            queue: QUEUE,
            parent,
            outputs: vec![0],
            number: 0,
            rx_buffers_from: None,
            tx_in_place_via: None,
        };
        first.plan.change(Change { parents: vec![parent], ..Change::default() });
        let mut workers = vec![first];
        for (number, lane) in lanes.into_iter().enumerate() {
            if number > 0 || role == Role::Parent {
                workers.push(ByHand::idle());
            }
            workers.last_mut().expect("there is one").take_lane(number, lane, Half::HandedOver);
        }
        workers
    }

    /// Returns workers that take turns at `input` under a lock, and send to `output` one at a time.
    ///
    /// # Panics
    /// If the frames of `input` cannot be held.
    pub fn locked(input: Box<dyn RxQueue>, output: Box<dyn TxQueue>, workers: usize) -> Vec<ByHand> {
        let Ok(queue) = LockedQueue::new(input) else { panic!("its frames cannot be held") };
        let output = Arc::new(Shared::new(Some(Egress::new(output))));
        let worker = |number| {
            let mut worker = ByHand::idle();
            let lane = queue.lane().expect("the queue is there");
            worker.take_lane(number, Lane::Locked(lane), Half::Shared(output.clone()));
            worker
        };
        (0..workers).map(worker).collect()
    }

    /// Returns a worker that receives nothing.
    fn idle() -> ByHand {
        ByHand::new(Box::new(Nothing), Box::new(Sink), InPlace::Never)
    }

    /// Takes a lane, and sends what comes by it to `half`.
    fn take_lane(&mut self, number: usize, lane: Lane, half: Half) {
        let plan = &mut self.plan;
        let slot = plan.outputs.len();
        let queue = TransmitQueue { half, counters: Arc::default() };
        let output = Output::new(1, vec![queue], plan.counters.clone());
        let route = Route::new(QUEUE.lane(number), Target::Patch(slot), 0, Arc::default(), Arc::default());
        let lane = LaneInput { route, lane, stages: IngressStages::none(), outputs: vec![slot] };
        plan.change(Change { outputs: vec![(slot, output)], lanes: vec![lane], ..Change::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::generator::Generator;
    use crate::port::pace::Pace;

    /// Makes rounds of all workers in turn, and returns how many frames had their steps timed: of each worker, and of the parent.
    fn timed(mut workers: Vec<ByHand>) -> (Vec<u64>, u64) {
        for _ in 0..1000 {
            for worker in &mut workers {
                worker.round();
            }
        }
        let stats: Vec<_> = workers.iter().map(ByHand::stats).collect();
        (stats.iter().map(|of| of.sampled_packets).collect(), stats[0].parent_sampled_packets)
    }

    fn generator() -> Box<dyn RxQueue> {
        Box::new(Generator::new(64, Pace::default(), 0, None))
    }

    #[test]
    fn all_workers_of_a_shared_queue_get_frames_and_have_them_timed() {
        for (role, lanes) in [Role::WorkingParent, Role::Parent].into_iter().flat_map(|role| [(role, 1), (role, 3)]) {
            let workers = ByHand::static_role(generator(), Box::new(Sink), lanes, role);
            let parents = usize::from(role == Role::Parent);
            assert_eq!(workers.len(), lanes + parents);
            let (of_workers, of_parent) = timed(workers);
            assert!(of_parent > 0 && of_workers[parents..].iter().all(|&frames| frames > 0), "{role:?} {of_workers:?}");
        }
        let (of_workers, of_parent) = timed(ByHand::locked(generator(), Box::new(Sink), 3));
        assert!(of_parent == 0 && of_workers.iter().all(|&frames| frames > 0), "{of_workers:?}");
    }
}
