//! The two directions of a mapping.

/// Direction of frames between a physical queue and a guest's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The physical queue receives into the guest's buffers.
    ToGuest,
    /// The physical queue sends from the guest's memory.
    FromGuest,
}

impl Direction {
    pub(crate) const BOTH: [Direction; 2] = [Direction::ToGuest, Direction::FromGuest];
}
