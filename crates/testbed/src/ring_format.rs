//! Ring formats of virtio devices.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Format of the rings of a virtio device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RingFormat {
    /// Three areas, as virtio always had.
    Split,
    /// One area, since virtio 1.1.
    Packed,
}

impl fmt::Display for RingFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RingFormat::Split => "split",
            RingFormat::Packed => "packed",
        })
    }
}
