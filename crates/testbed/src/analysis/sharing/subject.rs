//! The subject of measurements: something whose threads share a receive queue.

use super::distribution::Distribution;
use super::plan::Point;
use serde::Serialize;

/// Something whose threads can share a receive queue in several ways.
pub trait Subject {
    /// Error of a measurement.
    type Error;

    /// Measures once in these conditions, for some milliseconds.
    fn measure(&mut self, point: &Point) -> Result<Sample, Self::Error>;
}

/// A part of the cost of sharing and I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The parent receives and publishes.
    Receive,
    /// The threads that process get batches, and give them back. Without a parent, this is all.
    Threads,
    /// The parent releases and sends.
    Send,
}

/// Result of one measurement.
pub struct Sample {
    /// Cycles of each packet for sharing and I/O, by part.
    pub parts: Vec<(Part, Distribution)>,
    /// Batches, and packets in them.
    pub batches: u64,
    pub packets: u64,
    /// Cycles of work for each packet.
    pub work: Option<f64>,
    /// Packets per cycle of all threads together.
    pub pace: Option<f64>,
}
