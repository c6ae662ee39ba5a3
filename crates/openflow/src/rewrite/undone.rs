//! The reasons why an action fails.

/// The reason why an action can't be done on a packet, which must be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// Its time to live is over. It is as it was before the action.
    Expired,
    /// A header that must change is too deep in it: not within its first 256 bytes.
    TooDeep,
}
