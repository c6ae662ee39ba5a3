//! Reload from one specification to the next: takes the actions that `actions` lists, and no others.

mod parts;
#[cfg(all(test, not(loom)))]
mod tests;
mod transition;

use super::error::Error;
use super::inner::Inner;
use super::open::OpenError;
use crate::reload::{Action, Step, Subject};
use crate::spec::Spec;
use transition::Transition;

/// Result of a reload.
pub(super) struct Applied {
    pub(super) actions: Vec<Action>,
    /// Ports that could not be opened, or could not be recorded.
    pub(super) failed: Vec<OpenError>,
}

impl Applied {
    fn port(&mut self, name: &str) -> Option<&mut Action> {
        self.actions.iter_mut().find(|action| action.subject == Subject::Port && action.name == name)
    }

    /// Marks a kept port as changed, because an earlier failure is retried.
    fn change(&mut self, port: &str, what: &str) {
        if let Some(action) = self.port(port).filter(|action| action.step == Step::Kept) {
            (action.step, action.why) = (Step::Changed, vec![what.to_owned()]);
        }
    }

    fn fail(&mut self, port: &str, error: OpenError) {
        if let Some(action) = self.port(port) {
            action.error = Some(error.to_string());
        }
        self.failed.push(error);
    }
}

impl Inner {
    /// Turns the present topology into `spec`. On an error nothing was done.
    pub(super) fn apply(&self, spec: Spec) -> Result<Applied, Error> {
        let mut open = self.open.lock().unwrap();
        // Everything that can fail as a whole comes before the first change.
        let mut transition = Transition::prepare(self, &mut open, spec)?;
        transition.set_aggregation();
        // Old ports close before new ones open, as both may need the same socket or interface.
        transition.close_ports();
        // No frame for a guest, new or old, may land where the next specification forbids it.
        transition.tighten_mappings();
        transition.record_ports();
        transition.open_ports();
        // Only now do workers poll the new ports: each of them has its outputs.
        Ok(transition.forward())
    }
}
