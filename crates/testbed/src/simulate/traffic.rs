//! Traffic of the sources of a node.

use serde::Serialize;
use std::fmt;

/// When packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At equal distances.
    Smooth,
    /// At random distances.
    Poisson,
    /// For 1 ms, and then nothing for 0.1 to 1 ms (PA-Flow Section 6.2).
    OnOff,
    /// This many at once.
    Trains(u32),
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arrivals::Smooth => f.pad("smooth"),
            Arrivals::Poisson => f.pad("poisson"),
            Arrivals::OnOff => f.pad("on-off"),
            Arrivals::Trains(packets) => f.pad(&format!("{packets} in a row")),
        }
    }
}

/// Lengths of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sizes {
    /// All of 64 bytes.
    Short,
    /// The simple Internet mix: 7 of 64 bytes, 4 of 590 and one as long as a frame may be, in any order.
    Imix,
}

impl Sizes {
    fn list(self) -> &'static str {
        match self {
            Sizes::Short => "64",
            Sizes::Imix => "64,64,64,64,64,64,64,590,590,590,590,1514",
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Sizes::Short => "64 bytes",
            Sizes::Imix => "imix",
        })
    }
}

/// Microseconds of a burst of on-off traffic, and of the least and the longest pause.
const ON_OFF: (f64, [f64; 2]) = (1000.0, [100.0, 1000.0]);

/// Traffic of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    pub arrivals: Arrivals,
    pub sizes: Sizes,
    /// Packets a second of all sources of the node, pauses included.
    pub pps: f64,
    /// Sources of the node, each with a chain of its own.
    pub sources: u32,
}

impl Traffic {
    /// Returns the lines of a scenario for the sources of a node.
    pub fn lines(&self, node: &str) -> String {
        let Traffic { arrivals, sizes, pps, sources } = *self;
        let pps = pps / f64::from(sources);
        let (on, [least, most]) = ON_OFF;
        let busy = on / (on + (least + most) / 2.0);
        let how = match arrivals {
            Arrivals::Smooth => format!("pps={pps}"),
            Arrivals::Poisson => format!("pps={pps} poisson"),
            Arrivals::OnOff => format!("pps={} on-us={on} off-us-least={least} off-us-most={most}", pps / busy),
            Arrivals::Trains(packets) => format!("pps={pps} train={packets}"),
        };
        let source = |chain| format!("source {node} chain={chain} sizes={} {how}\n", sizes.list());
        (0..sources).map(source).collect()
    }
}
