//! The workers: asked for changes, and replaced.

use super::FabricState;
use super::changes::Changes;
use super::post::Post;
use crate::spec::WorkerSpec;
use crate::worker::{Answer, Change, Removed, Unresponsive, Worker};

impl FabricState {
    /// Asks workers to change their plans, whether they respond or not.
    pub(super) fn ask(&self, changes: Changes) -> Vec<Answer<Removed>> {
        changes.into_some().map(|(worker, change)| self.ask_one(worker, change)).collect()
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
