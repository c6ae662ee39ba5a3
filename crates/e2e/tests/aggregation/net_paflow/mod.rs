//! The DPDK driver `net_paflow`: an unmodified DPDK application gets and sends single packets, and aggregates cross its rings.

mod echo;
mod full;
mod l3fwd;
mod modes;
mod queues;
mod refused;
mod rig;
mod routed;
mod soak;
mod wrong;
