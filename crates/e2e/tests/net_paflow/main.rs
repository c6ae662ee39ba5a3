//! The DPDK driver `net_paflow`: an unmodified DPDK application gets and sends single packets, and aggregates cross its rings.

mod modes;
mod queues;
mod refused;
mod rig;
#[path = "../support/mod.rs"]
mod support;
mod wrong;
