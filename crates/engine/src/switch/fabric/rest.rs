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

/// Returns the reason why a queue is kept whose frames do not come back.
pub(super) fn not_given_back() -> Kept {
    Kept("workers do not give its frames back; `millrace ctl workers` shows where each is".into())
}

impl Fabric {
    /// Has the crews rest that do not go on by `layout`.
    pub(super) fn rest_crews(&self, layout: &Layout, spawned: &[Option<Worker>]) {
        let ending = Ending::by(spawned);
        let state = self.state();
        let ends = state.queues.iter().filter(|(id, queue)| match &queue.receive {
            Receive::Crew(crew) => ending.ends_crew(**id, crew, layout),
            _ => false,
        });
        let ends = ends.map(|(id, _)| *id).collect();
        drop(state);
        // Those that do not rest are told of when their workers are asked for them.
        let _ = self.wait_until_rest(ends);
    }

    /// Has the parents of these queues, as far as they have any, receive nothing more, and waits until all frames have come back.
    pub(super) fn wait_until_rest(&self, mut queues: Vec<QueueId>) -> Result<(), Kept> {
        let began = Instant::now();
        loop {
            // The lock is not held while this waits.
            let asked = self.state().ask_to_rest(&queues);
            queues.clear();
            for (id, answer) in asked {
                if !answer.wait()? {
                    queues.push(id);
                }
            }
            if queues.is_empty() {
                return Ok(());
            }
            // A worker that does not respond has the frames.
            let asked = self.state().ask_lanes(&queues);
            asked.into_iter().try_for_each(Answer::wait)?;
            if began.elapsed() > PATIENCE {
                return Err(not_given_back());
            }
            std::thread::sleep(INTERVAL);
        }
    }
}

impl FabricState {
    /// Asks the parents of these queues to receive nothing more, and whether all frames have come back.
    fn ask_to_rest(&self, queues: &[QueueId]) -> Vec<(QueueId, Answer<bool>)> {
        let ask = |&id: &QueueId| {
            let parent = self.crew(id)?.parent.as_ref()?.worker;
            Some((id, self.posts[parent].worker.ask(move |plan| plan.rest(id))))
        };
        queues.iter().filter_map(ask).collect()
    }

    /// Asks the workers of the lanes of these queues whether they respond.
    fn ask_lanes(&self, queues: &[QueueId]) -> Vec<Answer<()>> {
        let lanes = queues.iter().filter_map(|id| self.crew(*id)).flat_map(|wiring| &wiring.lanes);
        lanes.map(|lane| self.posts[lane.worker].worker.ask(|_| ())).collect()
    }

    fn crew(&self, id: QueueId) -> Option<&CrewWiring> {
        match &self.queues.get(&id)?.receive {
            Receive::Crew(crew) => Some(&crew.wiring),
            _ => None,
        }
    }
}
