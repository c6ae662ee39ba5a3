//! The identifier of a network function instance.

use std::fmt;
use std::num::NonZeroU16;

/// A network function instance: the next hop of a packet. Zero stands for none, in OpenFlow messages and in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Nfi(pub NonZeroU16);

impl Nfi {
    /// Returns the instance `id`; `None` if it is zero.
    #[inline(always)]
    pub const fn new(id: u16) -> Option<Nfi> {
        match NonZeroU16::new(id) {
            Some(id) => Some(Nfi(id)),
            None => None,
        }
    }

    /// Returns its number.
    #[inline(always)]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Display for Nfi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
