//! Workers that end by a new layout.

use super::crew::Crew;
use crate::queue_id::QueueId;
use crate::switch::layout::Layout;
use crate::worker::Worker;

/// Workers that end: by number, those that the layout lacks, and those that others replace.
#[derive(Clone, Copy)]
pub(super) struct Ending<'s> {
    spawned: &'s [Option<Worker>],
}

impl<'s> Ending<'s> {
    /// Returns the workers that end when these are added. There is an entry for each worker of the layout.
    pub(super) fn by(spawned: &'s [Option<Worker>]) -> Ending<'s> {
        Ending { spawned }
    }

    pub(super) fn has(self, worker: usize) -> bool {
        self.spawned.get(worker).is_none_or(Option::is_some)
    }

    /// Reports whether a crew cannot go on as it is: its wiring is another one, or one of its workers ends.
    pub(super) fn ends_crew(self, id: QueueId, crew: &Crew, layout: &Layout) -> bool {
        let lanes = crew.wiring.lanes.iter().map(|lane| lane.worker);
        let mut workers = lanes.chain(crew.wiring.parent.as_ref().map(|parent| parent.worker));
        workers.any(|worker| self.has(worker)) || layout.crew_wiring(id).as_ref() != Some(&crew.wiring)
    }
}
