//! The counts that the simulator prints.

use serde::Deserialize;

/// Counts of a run. Those of links and nodes end with the sources; all others end when the network is empty.
#[derive(Clone, Debug, Deserialize)]
pub struct Counts {
    pub sent: u64,
    pub delivered: u64,
    pub lost: u64,
    pub time_us: Times,
    pub links: Vec<LinkCounts>,
    pub nodes: Vec<NodeCounts>,
}

/// Times from source to sink, in microseconds.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Times {
    pub mean: f64,
    pub p99: f64,
}

/// Counts of a link.
#[derive(Clone, Debug, Deserialize)]
pub struct LinkCounts {
    pub frames: u64,
    pub packets: u64,
    pub bytes: u64,
    pub lost_frames: u64,
    /// Frames by the number of packets in them.
    pub held: Vec<(u32, u64)>,
}

/// Counts of a node.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeCounts {
    pub packets: u64,
    pub cycles: u64,
    pub waiting: u64,
}
