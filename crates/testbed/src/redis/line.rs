//! The paths between clients and server.

use crate::hosts::Between;
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
    /// The kernel's TCP in two network namespaces, joined by Millrace with a tap for each
    Taps,
    /// The kernel's TCP in two network namespaces, joined by veth interfaces and Open vSwitch with DPDK and userspace TSO
    Ovs,
    /// Two nf-proxy, joined by Millrace, which copies frames
    Copy,
    /// Two nf-proxy, joined by Millrace, which exchanges buffers
    Exchange,
}

impl Line {
    /// Returns the switch that joins two hosts of the kernel's; none if there are proxies instead.
    pub fn between(self) -> Option<Between> {
        match self {
            Line::Veth => Some(Between::Veth),
            Line::Interfaces => Some(Between::Interfaces),
            Line::Taps => Some(Between::Taps),
            Line::Ovs => Some(Between::Ovs),
            Line::Copy | Line::Exchange => None,
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.between() {
            Some(between) => between.fmt(f),
            None if *self == Line::Copy => f.write_str("nf-proxy, copy"),
            None => f.write_str("nf-proxy, exchange"),
        }
    }
}
