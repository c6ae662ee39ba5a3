//! The fate of a frame, and the guest that sends it.

/// A guest: 0 is the one that sends along a path that has a direction, 1 the one that receives.
pub type Side = usize;

/// Expected outcome for a frame. Reasons are those of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It comes out.
    Carried,
    /// It is dropped for this reason.
    Dropped(&'static str),
    /// It comes out or is dropped for this reason.
    Either(&'static str),
}
