//! A mapping as users see it.

use super::Mapping;
use crate::port::zero_copy::Direction;
use crate::spec::PortQueues;
use crate::stats::MappingStats;

impl Mapping {
    /// Returns the statistics, without who chose the mapping. `lends` tells whether a worker can borrow from the guest's queue.
    pub(in crate::switch) fn stats(&self, lends: impl FnOnce() -> Result<(), String>) -> MappingStats {
        let reason = self.why_not(lends);
        let (spec, mapped) = (&self.spec, &self.mapped);
        // Read first, as it is counted last.
        let split = mapped.split.get();
        MappingStats {
            from: PortQueues::one(&spec.from.port, self.queues.physical).to_string(),
            to: PortQueues::one(&spec.to.port, self.queues.guest).to_string(),
            mode: spec.mode().into(),
            chosen_by: String::new(),
            zero_copy: reason.is_none(),
            reason,
            on_loan: mapped.on_loan.get(),
            longest_loan_us: mapped.longest.get(),
            in_place: mapped.in_place.get(),
            elsewhere: mapped.unclaimed.get().saturating_sub(split),
            split,
            copied: mapped.copied.get(),
            sent_in_place: mapped.sent_in_place.get(),
            sent_copied: mapped.sent_copied.get(),
            in_place_from: mapped.found_threshold(Direction::ToGuest),
            sent_in_place_from: mapped.found_threshold(Direction::FromGuest),
            measured: self.spec.copy_break.is_none(),
        }
    }

    /// Returns why frames are not received into the guest's buffers, if they are not.
    fn why_not(&self, lends: impl FnOnce() -> Result<(), String>) -> Option<String> {
        let (shown, spec) = (self.shown.lock().unwrap(), &self.spec);
        if !shown.is_open {
            return Some(format!("port \"{}\" is down", spec.from.port));
        }
        if let Some(why) = &shown.failed {
            return Some(format!("port \"{}\" is being opened again: {why}", spec.from.port));
        }
        if !shown.has_guest {
            return Some(format!("no guest has started queue {} of \"{}\"", self.queues.guest, spec.to.port));
        }
        shown.refused.clone().or_else(|| lends().err()).or_else(|| self.mapped.why_none())
    }
}
