//! Records of searches and their trials.

use loadgen::app::Latency;
use serde::{Deserialize, Serialize};

/// Results of a search, in packets per second of each sender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Searched {
    /// The greatest rate found without loss: a lower bound, and the least rate found to lose packets.
    pub ndr: [f64; 2],
    /// The same with at most 0.5 % of loss.
    pub pdr: [f64; 2],
    /// Packets that came through at the two lower bounds.
    #[serde(default)]
    pub throughput: [f64; 2],
    /// Why the search for either ended.
    #[serde(default)]
    pub ended: [Ended; 2],
    /// Every trial, in order.
    pub trials: Vec<Trial>,
}

/// Reason why a search ended. Bounds other than `Found` are to be marked where they are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The bounds are as close as was asked for.
    #[default]
    Found,
    /// The load could not send more: both bounds are its greatest rate, and the switch can do that or more.
    LoadLimit,
    /// Packets were lost at every rate: the lower bound is 0, the upper one the least rate tried.
    AlwaysLost,
    /// Trials or seconds were used up: the bounds are those that the search reached.
    Effort,
}

/// One trial of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Packets per second of each sender, as asked for; of a burst, as sent.
    pub rate: f64,
    /// Packets per second that each sender sent.
    #[serde(default)]
    pub offered: f64,
    /// Seconds.
    pub seconds: f64,
    /// Share of the sent packets that were lost.
    pub loss: f64,
    /// Latency of the packets that were not lost, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}
