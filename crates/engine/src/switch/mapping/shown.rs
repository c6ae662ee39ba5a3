//! The state of a mapping for display.

use super::state::{Filler, MappingState};
use crate::switch::tenancy::Verdict;

/// State of a mapping for display.
pub(super) struct Shown {
    pub(super) is_open: bool,
    pub(super) has_guest: bool,
    pub(super) is_stuck: bool,
    /// Reason why nothing is lent although both ends are present.
    pub(super) refused: Option<String>,
}

impl Shown {
    pub(super) fn of(state: &MappingState) -> Shown {
        let physical = match &state.filler {
            Filler::Open(physical) | Filler::Stuck { physical: Some(physical), .. } => Some(physical),
            _ => None,
        };
        let copied = if let Verdict::Copied(why) = &state.verdict { Some(why.clone()) } else { None };
        Shown {
            is_open: physical.is_some(),
            has_guest: state.guests.to.is_some(),
            is_stuck: state.filler.is_stuck(),
            refused: copied.or_else(|| physical.and_then(|physical| physical.refused.clone())),
        }
    }
}
