//! Ring formats of virtio devices.

use clap::ValueEnum;
use serde::Serialize;
use std::fmt;

/// Ring format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Ring {
    /// Three areas, as virtio always had.
    Split,
    /// One area, since virtio 1.1.
    Packed,
}

impl fmt::Display for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ring::Split => "split",
            Ring::Packed => "packed",
        })
    }
}
