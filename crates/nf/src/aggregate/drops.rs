//! Counters of dropped packets, by reason.

/// Number of reasons: those of [`paflow::Reject`], three more of a port that aggregates, and three of a crew.
const REASONS: usize = 19;

/// Dropped packets and aggregates, by the reason's name; `docs/troubleshooting.md` explains each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops([(&'static str, u64); REASONS]);

impl Drops {
    #[cold]
    pub(crate) fn add(&mut self, reason: &'static str, count: u64) {
        let slot = self.0.iter_mut().find(|(name, _)| *name == reason || name.is_empty());
        let slot = slot.expect("there are no more reasons than slots");
        *slot = (reason, slot.1 + count);
    }

    /// Returns the reasons that occurred, with their counts.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.into_iter().filter(|(_, count)| *count > 0)
    }
}
