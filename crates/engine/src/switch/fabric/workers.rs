//! The workers: asked for changes, and replaced.

use super::FabricState;
use super::changes::Changes;
use super::post::Post;
use super::queue::Side;
use crate::queue_id::QueueId;
use crate::spec::WorkerSpec;
use crate::worker::{Answer, Change, Removed, Unresponsive, Worker};

impl FabricState {
    /// Asks workers to change their plans, whether they respond or not.
    pub(super) fn ask(&self, changes: Changes) -> Vec<Answer<Removed>> {
        changes.into_some().map(|(worker, change)| self.ask_one(worker, change)).collect()
    }

    /// Asks workers for a half of a queue by these changes, and those that may still have a former one whether they respond: then they
    /// have made all earlier changes. Until they respond, they count as keepers.
    pub(super) fn ask_for(&mut self, id: QueueId, side: Side, changes: Changes) -> Vec<Answer<Removed>> {
        let mut asked = self.ask(changes);
        let Some(queue) = self.queues.get_mut(&id) else { return asked };
        let keepers = queue.keepers(side);
        let posts = self.posts.iter().filter(|post| keepers.has(&post.worker.pulse));
        let called: Vec<_> = posts.map(|post| post.worker.ask(|_| Removed::default())).collect();
        keepers.add(asked.iter().map(Answer::pulse));
        asked.extend(called);
        asked
    }

    /// Asks a worker to change its plan.
    pub(super) fn ask_one(&self, worker: usize, change: Change) -> Answer<Removed> {
        self.posts[worker].worker.ask(move |plan| plan.change(change))
    }

    /// Checks that none of these workers was given up.
    pub(super) fn check(&self, workers: impl IntoIterator<Item = usize>) -> Result<(), Unresponsive> {
        let mut pulses = workers.into_iter().filter_map(|worker| Some(&self.posts.get(worker)?.worker.pulse));
        pulses.find(|pulse| pulse.is_given_up()).map_or(Ok(()), |pulse| Err(Unresponsive(pulse.index)))
    }

    /// Ends workers that are no longer wanted, and adds those in `spawned`.
    pub(super) fn replace_workers(&mut self, wanted: &[WorkerSpec], spawned: Vec<Option<Worker>>) {
        let mut had: Vec<_> = self.posts.drain(..).map(Some).collect();
        for ((index, spec), new) in wanted.iter().enumerate().zip(spawned) {
            let post = match new {
                Some(worker) => Some(Post::new(spec.clone(), worker)),
                None => had.get_mut(index).and_then(Option::take).map(|post| Post { spec: spec.clone(), ..post }),
            };
            self.posts.extend(post);
        }
    }
}
