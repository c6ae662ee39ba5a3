//! Harnesses of the fuzzers: each one is a peer that may write anything at any moment.
//!
//! Besides panics and sanitizer reports, each checks properties that must hold for any peer: bursts stay bounded, and
//! lent frames lie in the memory that the peer shared.

pub mod aggregates;
pub mod backend;
pub mod captures;
pub mod controller;
pub mod device;
pub mod driver;
pub mod exchange;
pub mod guest;
pub mod merge;
pub mod messages;
pub mod offloads;
pub mod regions;
pub mod splice;
#[path = "../../crates/virtqueue/tests/rings/support/switch.rs"]
pub mod switch;
pub mod tunnel;
