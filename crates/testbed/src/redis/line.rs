//! The paths between clients and server.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A path between clients and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// The kernel's TCP in two network namespaces, joined by veth interfaces and the kernel's bridge
    Veth,
    /// The kernel's TCP in two network namespaces, joined by veth interfaces and Millrace
    Interfaces,
    /// Two nf-proxy, joined by Millrace, which copies frames
    Copy,
    /// Two nf-proxy, joined by Millrace, which exchanges buffers
    Exchange,
}

impl Line {
    /// Reports whether the kernel's TCP takes no part.
    pub fn has_proxies(self) -> bool {
        matches!(self, Line::Copy | Line::Exchange)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Line::Veth => "kernel, bridge",
            Line::Interfaces => "kernel, Millrace",
            Line::Copy => "nf-proxy, copy",
            Line::Exchange => "nf-proxy, exchange",
        })
    }
}
