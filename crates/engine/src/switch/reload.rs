//! Reload from one specification to the next: makes the difference between them, and no other.

mod applied;
mod choices;
mod parts;
mod recordings;
#[cfg(test)]
mod tests;
mod transition;

use super::error::Error;
use super::inner::Inner;
use crate::spec::Spec;
use applied::Applied;
use transition::Transition;

impl Inner {
    /// Turns the present topology into `spec`, with what the switch chooses beside it. On an error nothing was done.
    pub(super) fn apply(&self, spec: Spec) -> Result<Applied, Error> {
        let mut open = self.open.lock().unwrap();
        let (spec, chosen) = self.topology().choose(spec);
        // Everything that can fail as a whole comes before the first change.
        let mut transition = Transition::prepare(self, &mut open, spec, chosen)?;
        transition.set_aggregation();
        // Old ports close before new ones open, as both may need the same socket or interface.
        transition.close_ports();
        // No frame for a guest, new or old, may land where the next specification forbids it.
        transition.tighten_mappings();
        transition.seat_queues();
        transition.record_ports();
        transition.mend_sockets();
        transition.open_ports();
        // Only now do workers poll the new ports: each of them has its outputs.
        Ok(transition.forward())
    }
}
