//! Loads for virtual switches. Each is a single thread that polls, so that all its times are on one clock.
//!
//! - [`load`]: source and sink of two or more virtio ports, with a bounded number of frames in flight;
//! - `wire`: a NIC before the switch and a network function behind it;
//! - `traffic`: packets at a pace that nothing slows down, each with its time and number;
//! - `app`: senders, receivers, clients and servers, over each kind of port that an `endpoint` can have.
//!
//! [`cycles`] is their clock, `pace` says when packets are due, and [`cpu`] keeps them on their processor. All but the first are the
//! feature `testbed`: a switch is built without them.

#[cfg(feature = "testbed")]
pub mod app;
pub mod cpu;
pub mod cycles;
#[cfg(feature = "testbed")]
pub mod endpoint;
pub mod load;
#[cfg(feature = "testbed")]
pub mod pace;
#[cfg(feature = "testbed")]
pub mod traffic;
#[cfg(feature = "testbed")]
pub mod wire;
