//! Ports of each kind, the stages between them and forwarding, and workers that share their queues.

mod crew;
mod kinds;
mod mirror;
mod offloads;
mod sharing;
mod vxlan;
