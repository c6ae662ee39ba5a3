//! Changes of the workers' plans, by worker.

use super::FabricState;
use crate::queue_id::QueueId;
use crate::switch::layout::CrewWiring;
use crate::worker::{Answer, Change, Removed, Unresponsive};
use std::collections::BTreeMap;

/// Changes of plans. A worker without one gets no job.
#[derive(Default)]
pub(super) struct Changes(BTreeMap<usize, Change>);

impl Changes {
    /// Returns the change for a worker.
    pub(super) fn at(&mut self, worker: usize) -> &mut Change {
        self.0.entry(worker).or_default()
    }

    /// Asks a worker whether it responds: then it has made all earlier changes.
    pub(super) fn call(&mut self, worker: usize) {
        self.at(worker).is_called = true;
    }

    /// Has the workers of a crew leave their queue.
    pub(super) fn leave_crew(&mut self, id: QueueId, wiring: &CrewWiring) {
        wiring.lanes.iter().for_each(|lane| self.at(lane.worker).leave.push(lane.id));
        wiring.parent.iter().for_each(|parent| self.at(parent.worker).leave.push(id));
    }

    /// Returns the changes that change anything, with their workers.
    pub(super) fn into_some(self) -> impl Iterator<Item = (usize, Change)> {
        self.0.into_iter().filter(|(_, change)| !change.is_empty())
    }
}

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
}
