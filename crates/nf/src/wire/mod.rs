//! Protocol headers, read and written in place. Reading checks a header first, and returns `None` if it is invalid.

#[cfg(feature = "functions")]
pub mod arp;
pub mod ethernet;
#[cfg(feature = "functions")]
pub mod icmp;
#[cfg(feature = "functions")]
pub mod ipv4;

pub use packet::MacAddr;

/// Returns the big-endian word at `at`; panics if it is out of bounds.
pub(crate) fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Returns the `N` bytes at `at`; panics if they are out of bounds.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("N bytes")
}
