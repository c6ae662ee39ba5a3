//! The actions taken by a reload, and their failures.

use crate::reload::{Action, Step, Subject};
use crate::switch::open::OpenError;

/// Result of a reload.
pub(in crate::switch) struct Applied {
    pub(in crate::switch) actions: Vec<Action>,
    /// Ports that could not be opened, recorded, or given their mappings.
    pub(in crate::switch) failed: Vec<OpenError>,
}

impl Applied {
    fn port(&mut self, name: &str) -> Option<&mut Action> {
        self.actions.iter_mut().find(|action| action.subject == Subject::Port && action.name == name)
    }

    /// Marks a port that stays as changed, because an earlier failure is retried.
    pub(super) fn change(&mut self, port: &str, what: &str) {
        if let Some(action) = self.port(port).filter(|action| matches!(action.step, Step::Kept | Step::Changed)) {
            action.step = Step::Changed;
            if !action.why.iter().any(|known| known == what) {
                action.why.push(what.to_owned());
            }
        }
    }

    pub(super) fn fail(&mut self, port: &str, error: OpenError) {
        if let Some(action) = self.port(port) {
            action.error = Some(error.to_string());
        }
        self.failed.push(error);
    }
}
