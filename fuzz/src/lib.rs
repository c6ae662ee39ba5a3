//! What the fuzzers do with their input: each one is a peer that may write anything at any moment.
//!
//! Panics and sanitizer reports are what a fuzzer looks for anyway; besides, each checks what has to hold whatever the
//! peer does: bursts stay bounded, and what the queues lend lies in the memory that the peer shared.

pub mod aggregates;
pub mod captures;
pub mod controller;
pub mod device;
pub mod driver;
pub mod guest;
pub mod messages;
pub mod regions;
pub mod tunnel;
