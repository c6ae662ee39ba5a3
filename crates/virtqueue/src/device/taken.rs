//! A chain that was taken from a ring.

/// A chain that the device has taken and must return.
#[derive(Clone, Copy)]
pub(super) struct TakenChain {
    /// Index of its first descriptor (split), or buffer id (packed).
    pub(super) id: u16,
    /// Slots of the ring that it takes. On a split ring that is one, whatever its length.
    pub(super) slots: u16,
}

impl TakenChain {
    pub(super) const NONE: TakenChain = TakenChain { id: 0, slots: 0 };
}
