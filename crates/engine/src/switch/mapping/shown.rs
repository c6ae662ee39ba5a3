//! A mapping as users see it.

use super::Mapping;
use super::state::{Filler, State};
use crate::stats::MappingStats;
use crate::switch::tenancy::Verdict;

/// State of a mapping for display.
pub(super) struct Shown {
    is_open: bool,
    /// By vhost-user's index.
    has_guest: Vec<bool>,
    is_stuck: bool,
    /// Reason why nothing is lent although both ends are present.
    refused: Option<String>,
}

impl Shown {
    pub(super) fn of(state: &State) -> Shown {
        let physical = match &state.filler {
            Filler::Open(physical) | Filler::Stuck { port: Some(physical), .. } => Some(physical),
            _ => None,
        };
        let copied = if let Verdict::Copied(why) = &state.verdict { Some(why.clone()) } else { None };
        Shown {
            is_open: physical.is_some(),
            has_guest: state.guests.iter().map(Option::is_some).collect(),
            is_stuck: state.filler.is_stuck(),
            refused: copied.or_else(|| physical.and_then(|physical| physical.refused.clone())),
        }
    }
}

impl Mapping {
    /// Returns the statistics, by queue. `lends` tells whether a worker can borrow from the guest's queue.
    pub(in crate::switch) fn stats(&self, lends: impl Fn(usize) -> Result<(), String>) -> Vec<MappingStats> {
        let shown = self.shown.lock().unwrap();
        let why_not = |queue: usize| -> Option<String> {
            if !shown.is_open {
                return Some(format!("port \"{}\" is down", self.spec.from));
            }
            if !shown.has_guest[2 * queue] {
                return Some(format!("no guest has started queue {queue} of \"{}\"", self.spec.to));
            }
            if shown.is_stuck {
                return Some(format!("port \"{}\" still owns some of the guest's buffers", self.spec.from));
            }
            let refused = shown.refused.clone();
            refused.or_else(|| lends(queue).err()).or_else(|| self.queues[queue].why_none())
        };
        let queues = self.queues.iter().enumerate();
        queues
            .map(|(queue, mapped)| MappingStats {
                from: format!("{}.{queue}", self.spec.from),
                to: format!("{}.{queue}", self.spec.to),
                mode: self.spec.mode().into(),
                zero_copy: why_not(queue).is_none(),
                reason: why_not(queue),
                on_loan: mapped.on_loan.get(),
                longest_loan_us: mapped.longest.get(),
                in_place: mapped.in_place.get(),
                elsewhere: mapped.elsewhere.get(),
                copied: mapped.copied.get(),
                sent_in_place: mapped.sent_in_place.get(),
                sent_copied: mapped.sent_copied.get(),
                copy_break: mapped.copy_break,
            })
            .collect()
    }
}
