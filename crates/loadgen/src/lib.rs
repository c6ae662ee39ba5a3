//! Loads for virtual switches. Each is a single thread that polls, so that all its times are on one clock.
//!
//! - [`load`]: source and sink of two or more virtio ports, with a bounded number of frames in flight;
//! - [`wire`]: a NIC before the switch and a network function behind it;
//! - [`traffic`]: packets at a pace that nothing slows down, each with its time and number.
//!
//! [`cycles`] is their clock, and [`cpu`] keeps them on their processor.

pub mod cpu;
pub mod cycles;
pub mod load;
pub mod traffic;
pub mod wire;
