//! Protocol headers, read and written in place. All that comes in is checked before it is believed; what is not as it
//! should be is `None`.

pub mod arp;
mod checksum;
pub mod ethernet;
pub mod icmp;
pub mod ipv4;

pub use checksum::{checksum, update_checksum};
pub use ethernet::MacAddr;

/// Two bytes at `at`, which must be there.
pub(crate) fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// `N` bytes at `at`, which must be there.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("N bytes")
}
