//! Shared by every crate that looks into a frame.
//!
//! - [`MacAddr`]: a MAC address;
//! - [`checksum`]: the Internet checksum, computed over parts or updated after a change;
//! - [`ethertype`], [`ip_protocol`] and [`header_len`]: numbers of the standards.
//!
//! The bottom of the house: no dependencies, no I/O, no allocation.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod ethertype;
pub mod header_len;
pub mod ip_protocol;
mod mac_addr;

pub use mac_addr::{MacAddr, ParseMacAddrError};
