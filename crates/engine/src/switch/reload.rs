//! Reload from one specification to the next: makes the difference between them, and no other.

mod applied;
mod bridges;
mod choices;
mod extent;
mod parts;
mod recordings;
#[cfg(test)]
mod tests;
mod transition;

use super::difference::Difference;
use super::error::Error;
use super::inner::Inner;
use super::layout::assignment;
use crate::reload::ReloadAction;
use crate::spec::Spec;
use applied::Applied;
pub(super) use extent::Extent;
use transition::Transition;

impl Inner {
    /// Returns the actions that [`Inner::apply`] would take, but for those that mend something.
    pub(super) fn preview(&self, spec: Spec) -> Vec<ReloadAction> {
        let old = self.topology();
        let workers = assignment(&spec, Some((&old.spec, old.layout.assignment())));
        let (spec, _) = old.choose(spec, &workers);
        Difference::of((&old.spec, old.layout.assignment()), (&spec, &workers)).report(&old.spec, &spec)
    }

    /// Turns the present topology into `spec`, with what the switch chooses beside it. On an error nothing was done.
    pub(super) fn apply(&self, spec: Spec, extent: Extent) -> Result<Applied, Error> {
        let mut open = self.open.lock().unwrap();
        let topology = self.topology();
        let workers = assignment(&spec, Some((&topology.spec, topology.layout.assignment())));
        let (spec, chosen) = topology.choose(spec, &workers);
        // Everything that can fail as a whole comes before the first change.
        let mut transition = Transition::prepare(self, &mut open, spec, workers, chosen)?;
        transition.set_aggregation();
        // Old ports close before new ones open, as both may need the same socket or interface.
        transition.close_ports();
        // No frame for a guest, new or old, may land where the next specification forbids it.
        transition.tighten_mappings();
        transition.seat_queues();
        transition.record_ports(extent);
        transition.mend_sockets(extent);
        transition.open_ports(extent);
        // Only now do workers poll the new ports: each of them has its outputs.
        Ok(transition.forward())
    }
}
