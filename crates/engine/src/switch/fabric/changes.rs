//! Changes of the workers' plans, by worker.

use crate::queue_id::QueueId;
use crate::switch::layout::CrewWiring;
use crate::worker::Change;
use std::collections::BTreeMap;

/// Changes of plans. A worker without one gets no job.
#[derive(Default)]
pub(super) struct Changes(BTreeMap<usize, Change>);

impl Changes {
    /// Returns the change for a worker.
    pub(super) fn at(&mut self, worker: usize) -> &mut Change {
        self.0.entry(worker).or_default()
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
