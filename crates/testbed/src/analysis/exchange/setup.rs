//! Conditions of one measurement.

use crate::ring_format::RingFormat;
use loadgen::load::TouchLevel;
use serde::Serialize;
use std::fmt;

/// Conditions of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    pub ring: RingFormat,
    pub size: u16,
    pub touch: TouchLevel,
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setup { ring, size, touch } = self;
        write!(f, "{ring}, {size} B, {touch} touched")
    }
}

/// The way of a frame from one function to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// The switch copies it.
    Copy,
    /// Its buffer becomes the other function's.
    Exchange,
}

impl Way {
    pub const ALL: [Way; 2] = [Way::Copy, Way::Exchange];
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Copy => "copy",
            Way::Exchange => "exchange",
        })
    }
}
