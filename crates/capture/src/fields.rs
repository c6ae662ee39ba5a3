//! The numbers in a file, in the byte order of its writer.

/// Byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

impl Order {
    /// Returns the order in which the first word of `bytes` is `magic`.
    pub(crate) fn of(bytes: &[u8], magic: u32) -> Option<Order> {
        [Order::Little, Order::Big].into_iter().find(|order| order.word(bytes) == Some(magic))
    }

    fn word(self, bytes: &[u8]) -> Option<u32> {
        let word = *bytes.first_chunk()?;
        Some(if self == Order::Little { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) })
    }
}

/// Reads numbers and bytes one after the other. Each is `None` if the rest is too short for it.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'b> {
    rest: &'b [u8],
    order: Order,
}

impl<'b> Fields<'b> {
    pub(crate) fn new(bytes: &'b [u8], order: Order) -> Fields<'b> {
        Fields { rest: bytes, order }
    }

    /// Returns `bytes` as numbers of the same order.
    pub(crate) fn within(&self, bytes: &'b [u8]) -> Fields<'b> {
        Fields { rest: bytes, ..*self }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'b [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(bytes)
    }

    /// Takes 16 bits.
    pub(crate) fn half(&mut self) -> Option<u16> {
        let half = self.bytes(2)?.try_into().expect("two bytes");
        Some(if self.order == Order::Little { u16::from_le_bytes(half) } else { u16::from_be_bytes(half) })
    }

    /// Takes 32 bits.
    pub(crate) fn word(&mut self) -> Option<u32> {
        let order = self.order;
        self.bytes(4).and_then(|word| order.word(word))
    }

    /// Takes 64 bits.
    pub(crate) fn long(&mut self) -> Option<u64> {
        let long = self.bytes(8)?.try_into().expect("eight bytes");
        Some(if self.order == Order::Little { u64::from_le_bytes(long) } else { u64::from_be_bytes(long) })
    }

    /// Takes 32 bits that are the upper half of a number, and then the lower half.
    pub(crate) fn high_and_low(&mut self) -> Option<u64> {
        Some(u64::from(self.word()?) << 32 | u64::from(self.word()?))
    }
}
