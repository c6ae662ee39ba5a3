//! The state of a mapping for display.

use super::state::MappingState;
use crate::switch::tenancy::Verdict;

/// State of a mapping for display.
pub(super) struct Shown {
    pub(super) is_open: bool,
    pub(super) has_guest: bool,
    /// Reason why the physical queue has failed.
    pub(super) failed: Option<String>,
    /// Reason why nothing is lent although both ends are present.
    pub(super) refused: Option<String>,
}

impl Shown {
    pub(super) fn of(state: &MappingState) -> Shown {
        let physical = state.physical.as_ref();
        let copied = if let Verdict::Copied(why) = &state.verdict { Some(why.clone()) } else { None };
        Shown {
            is_open: physical.is_some(),
            has_guest: state.guests.to.is_some(),
            failed: physical.and_then(|physical| physical.failed.clone()),
            refused: copied.or_else(|| physical.and_then(|physical| physical.refused.clone())),
        }
    }
}
