//! The tuple that names a test: (D, L, S, V, P, R, B), as in Ara et al., "A Framework for Comparative Evaluation of
//! High-Performance Virtualized Networking Mechanisms", section 4.1, with the technique and the traffic's shape added.

use loadgen::app::{Arrivals, Size, Touch};
use loadgen::endpoint::Technique;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The measured quantity (D).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dimension {
    /// Packets per second from senders to receivers.
    Throughput,
    /// Round trips between clients and servers.
    Latency,
}

/// Where the two ends of a pair are (L).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Location {
    /// On one host.
    Local,
    /// On two hosts.
    Remote,
}

/// Rate at which each sender or client sends (R).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum OfferedRate {
    /// As fast as packets are taken.
    Max,
    /// Packets per second.
    PerSecond(f64),
    /// The greatest rate without loss, which is searched for (NDR), and the greatest with 0.5 % of loss (PDR).
    Search,
    /// This share, in percent, of the rate without loss that the same switch reached in the same scenario.
    OfNdr(u8),
}

/// One test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The measured quantity (D).
    pub dimension: Dimension,
    /// Where the ends are (L).
    pub location: Location,
    /// Number of pairs (S): N of `NvsN`.
    pub pairs: u8,
    /// The switch (V).
    pub switch: String,
    /// Technique that the applications send and receive with.
    pub technique: Technique,
    /// Bytes of a frame (P).
    pub size: Size,
    /// Rate (R).
    pub rate: OfferedRate,
    /// Packets sent at once (B).
    pub burst: u16,
    /// Times at which packets are due.
    pub arrivals: Arrivals,
    /// Part of every packet that is written and read.
    pub touch: Touch,
}

impl fmt::Display for OfferedRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OfferedRate::Max => f.write_str("max"),
            OfferedRate::PerSecond(rate) => write!(f, "{rate}"),
            OfferedRate::Search => f.write_str("search"),
            OfferedRate::OfNdr(percent) => write!(f, "{percent}% of ndr"),
        }
    }
}

impl FromStr for OfferedRate {
    type Err = String;

    fn from_str(text: &str) -> Result<OfferedRate, String> {
        let wrong = || {
            format!(
                "{text:?} is not a rate: give packets per second, such as 1e6, \"max\", \"search\" or \"50% of ndr\""
            )
        };
        match (text, text.strip_suffix("% of ndr")) {
            ("max", _) => Ok(OfferedRate::Max),
            ("search", _) => Ok(OfferedRate::Search),
            (_, Some(percent)) => match percent.parse() {
                Ok(percent @ 1..=100) => Ok(OfferedRate::OfNdr(percent)),
                _ => Err(wrong()),
            },
            _ => match text.parse::<f64>() {
                Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(OfferedRate::PerSecond(rate)),
                _ => Err(wrong()),
            },
        }
    }
}

impl From<OfferedRate> for String {
    fn from(rate: OfferedRate) -> String {
        rate.to_string()
    }
}

impl TryFrom<String> for OfferedRate {
    type Error = String;

    fn try_from(text: String) -> Result<OfferedRate, String> {
        text.parse()
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Point { pairs, switch, technique, size, rate, burst, arrivals, .. } = self;
        let dimension = match self.dimension {
            Dimension::Throughput => "throughput",
            Dimension::Latency => "latency",
        };
        let location = match self.location {
            Location::Local => "local",
            Location::Remote => "remote",
        };
        write!(f, "{dimension} {location} {pairs}vs{pairs} {switch} {technique} {size} B rate {rate} burst {burst}")?;
        if *arrivals == Arrivals::Constant { Ok(()) } else { write!(f, " {arrivals}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_written_as_they_are_read() {
        for text in ["max", "search", "50% of ndr", "1500"] {
            assert_eq!(text.parse::<OfferedRate>().unwrap().to_string(), text);
        }
        for text in ["0% of ndr", "101% of ndr", "-1", "quick"] {
            assert!(text.parse::<OfferedRate>().unwrap_err().contains("50% of ndr"), "{text}");
        }
    }
}
