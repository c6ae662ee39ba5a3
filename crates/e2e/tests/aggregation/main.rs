//! Packets that are joined and split: by switches, by network functions, and by the DPDK driver.

mod functions;
mod neighbours;
mod net_paflow;
mod routed;
mod simulation;
mod switches;
