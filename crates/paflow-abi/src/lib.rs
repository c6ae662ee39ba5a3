//! Packet aggregation for programs in C, such as the driver in `dpdk/net_paflow`. `include/paflow.h` is the interface, with
//! its documentation.
//!
//! - [`rules`]: the rules that a port takes from its configuration;
//! - [`split`] finds the packets in a frame;
//! - [`join`] groups packets by next hop, and writes the frame of a group;
//! - [`reason`] numbers the reasons to drop a frame;
//! - [`abi`]: the functions that C calls. Only these use pointers.

pub mod abi;
pub mod join;
pub mod reason;
pub mod rules;
pub mod split;
