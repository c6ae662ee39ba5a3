//! A used entry's word for the buffer that comes back (docs/exchange.md).

/// The buffer that a guest gets back for a chain: the chain's own, or another one of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instead(
    /// The number of the group's buffer, plus one, or zero for the chain's own.
    u16,
);

impl Instead {
    /// The chain's own buffer comes back.
    pub(crate) const OWN: Instead = Instead(0);

    /// Returns the word for the group's buffer with this number.
    #[inline(always)]
    pub(crate) fn of(buffer: u16) -> Instead {
        Instead(buffer + 1)
    }

    /// Returns the number of the group's buffer, unless the chain's own comes back.
    #[inline(always)]
    pub(crate) fn buffer(self) -> Option<u16> {
        self.0.checked_sub(1)
    }

    /// Returns the bits of a used entry.
    #[inline(always)]
    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    /// Returns the word with these bits of a used entry.
    #[inline(always)]
    pub(crate) fn from_bits(bits: u16) -> Instead {
        Instead(bits)
    }
}
