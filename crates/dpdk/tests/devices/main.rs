//! Devices in software, with the plugin that make builds from `dpdk/port`. DPDK starts once a process: each test has its own. Those with
//! network interfaces need root.

mod cable;
mod files;
mod leaving;
mod lending;
mod memory;
mod native;
mod process;
mod refused;
mod registering;
mod rig;
mod sending;
mod stopping;
