//! What was dropped, by reason.

/// Reasons that there are: those of [`paflow::Reject`], and three of our own.
const REASONS: usize = 16;

/// Packets and aggregates dropped, by the reason's name; `docs/troubleshooting.md` explains each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops([(&'static str, u64); REASONS]);

impl Drops {
    /// Counts `count` for a reason.
    #[cold]
    pub(crate) fn add(&mut self, reason: &'static str, count: u64) {
        let slot = self.0.iter_mut().find(|(name, _)| *name == reason || name.is_empty());
        let slot = slot.expect("there are no more reasons than slots");
        *slot = (reason, slot.1 + count);
    }

    /// The reasons that occurred, and how often.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.into_iter().filter(|(_, count)| *count > 0)
    }
}
