//! Shared queues come to rest: their parents receive nothing more, and all their frames come back.

use super::ending::Ending;
use super::queue::Receive;
use super::{Fabric, FabricState};
use crate::port::Kept;
use crate::queue_id::QueueId;
use crate::switch::layout::{CrewWiring, Layout};
use crate::worker::{Answer, Worker};
use std::time::{Duration, Instant};

/// Time that all frames of a shared queue have to come back from workers that respond.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which the control side asks whether they have.
const INTERVAL: Duration = Duration::from_millis(1);
/// Number of such intervals for which a reload waits with the fabric locked.
const AGAIN: usize = 100;

/// Returns the reason why a queue is kept whose frames do not come back.
pub(super) fn not_given_back() -> Kept {
    Kept("workers do not give its frames back; `millrace ctl workers` shows where each is".into())
}

impl Fabric {
    /// Has the crews rest that do not go on by `layout`.
    pub(super) fn rest_crews(&self, layout: &Layout, spawned: &[Option<Worker>]) {
        let ends = self.state().ending_crews(layout, Ending::by(spawned));
        // Those that do not rest are told of when their workers are asked for them.
        drop(self.wait_until_rest(ends));
    }

    /// Has the parents of these queues, as far as they have any, receive nothing more, and waits until all frames have come back.
    /// Returns the queues whose frames do not.
    pub(super) fn wait_until_rest(&self, mut queues: Vec<QueueId>) -> Vec<(QueueId, Kept)> {
        let began = Instant::now();
        let mut failed = Vec::new();
        loop {
            // The lock is not held while this waits.
            let asked = self.state().ask_to_rest(&queues);
            queues.clear();
            for (id, answer) in asked {
                match answer.wait() {
                    Ok(true) => {}
                    Ok(false) => queues.push(id),
                    Err(why) => failed.push((id, why.into())),
                }
            }
            // A worker that does not respond has the frames.
            let asked = self.state().ask_lanes(&queues);
            for (id, answer) in asked {
                if let (Err(why), true) = (answer.wait(), queues.contains(&id)) {
                    queues.retain(|other| *other != id);
                    failed.push((id, why.into()));
                }
            }
            if began.elapsed() > PATIENCE {
                failed.extend(queues.drain(..).map(|id| (id, not_given_back())));
            }
            if queues.is_empty() {
                return failed;
            }
            std::thread::sleep(INTERVAL);
        }
    }
}

impl FabricState {
    /// Returns the queues whose crews do not go on by `layout`.
    fn ending_crews(&self, layout: &Layout, ending: Ending<'_>) -> Vec<QueueId> {
        let ends = self.queues.iter().filter(|(id, queue)| match &queue.receive {
            Receive::Crew(crew) => ending.ends_crew(**id, crew, layout),
            _ => false,
        });
        ends.map(|(id, _)| *id).collect()
    }

    /// Has crews rest once more that do not go on by `layout`: a queue may have come to one since [`Fabric::rest_crews`]. Waits for a
    /// short time, as nobody else can change the fabric meanwhile.
    pub(super) fn rest_again(&self, layout: &Layout, ending: Ending<'_>) {
        let mut queues = self.ending_crews(layout, ending);
        for _ in 0..AGAIN {
            let asked = self.ask_to_rest(&queues);
            queues = asked.into_iter().filter_map(|(id, answer)| (answer.wait() == Ok(false)).then_some(id)).collect();
            if queues.is_empty() {
                return;
            }
            std::thread::sleep(INTERVAL);
        }
    }

    /// Asks the parents of these queues to receive nothing more, and whether all frames have come back.
    fn ask_to_rest(&self, queues: &[QueueId]) -> Vec<(QueueId, Answer<bool>)> {
        let ask = |&id: &QueueId| {
            let parent = self.crew(id)?.parent.as_ref()?.worker;
            Some((id, self.posts[parent].worker.ask(move |plan| plan.rest(id))))
        };
        queues.iter().filter_map(ask).collect()
    }

    /// Asks the workers of the lanes of these queues whether they respond.
    fn ask_lanes(&self, queues: &[QueueId]) -> Vec<(QueueId, Answer<()>)> {
        let crews = queues.iter().filter_map(|id| Some((*id, self.crew(*id)?)));
        let lanes = crews.flat_map(|(id, wiring)| wiring.lanes.iter().map(move |lane| (id, lane.worker)));
        lanes.map(|(id, worker)| (id, self.posts[worker].worker.ask(|_| ()))).collect()
    }

    /// Returns the wiring of a queue that several workers share, if it is up.
    pub(super) fn crew(&self, id: QueueId) -> Option<&CrewWiring> {
        match &self.queues.get(&id)?.receive {
            Receive::Crew(crew) => Some(&crew.wiring),
            _ => None,
        }
    }
}
