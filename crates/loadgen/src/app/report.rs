//! The report of a traffic application.

use super::Role;
use serde::{Deserialize, Serialize};

/// Results of one application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AppReport {
    /// Its role.
    pub role: Role,
    /// A report for each flow that it sent or received.
    pub flows: Vec<FlowReport>,
    /// Share of the measured seconds in which its loop found nothing to do: near 0, the application is the limit.
    pub idle: f64,
    /// Seconds of the measured ones in which its thread was not running, as far as its loop could tell.
    pub stalled: f64,
}

/// Results of one flow: of its sender's end, its receiver's, or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowReport {
    /// Number of the flow's sender.
    pub flow: u8,
    /// The sender's side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sent>,
    /// The receiver's side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<Received>,
    /// Nanoseconds from sending to receiving by a clock that both ends read: the round trip for a client, one way for a receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

/// Measured packets at their sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Packets that the port took.
    pub packets: u64,
    /// Their bytes, of whole frames without checksums.
    pub bytes: u64,
    /// Packets that were due, and that the port had no room for.
    pub refused: u64,
    /// Duration of sending.
    pub seconds: f64,
}

/// Measured packets at their receiver; for a client, those that came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// Packets, without duplicates.
    pub packets: u64,
    /// Their bytes, of whole frames without checksums.
    pub bytes: u64,
    /// Packets received again.
    pub duplicates: u64,
    /// Packets that came after one that was sent later.
    pub reordered: u64,
    /// Packets that were not as they were sent.
    pub changed: u64,
}

/// Distribution of times, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Least.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90 % are at most this.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p99_9: f64,
    /// 99.99 %.
    pub p99_99: f64,
    /// Greatest.
    pub max: f64,
}
