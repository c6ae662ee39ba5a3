//! Findings of a reload at ports, and its report.

use crate::reload::{ReloadAction, Step};
use crate::spec::Spec;
use crate::switch::difference::Difference;
use crate::switch::open::OpenError;

/// Result of a reload.
pub(in crate::switch) struct Applied {
    pub(in crate::switch) actions: Vec<ReloadAction>,
    /// Ports that could not be opened, recorded, or given their mappings.
    pub(in crate::switch) failed: Vec<OpenError>,
}

/// Findings of a reload at ports, by index in the new specification.
pub(super) struct Findings(Vec<Finding>);

/// Findings of a reload at a port.
#[derive(Clone, Default)]
struct Finding {
    /// Earlier failures that it mends.
    mended: Vec<&'static str>,
    errors: Vec<OpenError>,
}

impl Findings {
    /// Returns no findings at this number of ports.
    pub(super) fn none(ports: usize) -> Findings {
        Findings(vec![Finding::default(); ports])
    }

    /// Notes that an earlier failure at a port is mended, or tried to.
    pub(super) fn mend(&mut self, port: usize, what: &'static str) {
        self.0[port].mended.push(what);
    }

    /// Notes that something failed at a port.
    pub(super) fn fail(&mut self, port: usize, error: OpenError) {
        self.0[port].errors.push(error);
    }

    /// Returns the actions of the reload from `old` to `new`, and all failures.
    pub(super) fn report(self, difference: &Difference, old: &Spec, new: &Spec) -> Applied {
        let mut actions = difference.report(old, new);
        let mut failed = Vec::new();
        // Ports come first, in their order.
        for (action, Finding { mended, errors }) in actions.iter_mut().zip(self.0) {
            if matches!(action.step, Step::Kept | Step::Changed) {
                for what in mended {
                    action.step = Step::Changed;
                    if !action.why.iter().any(|known| known == what) {
                        action.why.push(what.to_owned());
                    }
                }
            }
            action.error = errors.last().map(OpenError::to_string);
            failed.extend(errors);
        }
        Applied { actions, failed }
    }
}
