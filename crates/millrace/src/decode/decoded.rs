//! The contents of a capture file, as they are printed.

use serde::Serialize;

/// A frame that is an aggregate, or looks like one.
#[derive(Debug, Serialize)]
pub(super) struct Decoded {
    /// Number of the frame in the file, from 1.
    pub(super) frame: u64,
    /// Seconds since 1970.
    pub(super) time: f64,
    /// Length in bytes.
    pub(super) length: usize,
    /// Encapsulation of the aggregate: `udp`, `vxlan` or `ethernet`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) carrier: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) destination: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vni: Option<u32>,
    /// Its packets.
    pub(super) packets: Vec<Packet>,
    /// The reason why the aggregate is rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rejected: Option<Rejected>,
}

/// A packet in an aggregate.
#[derive(Debug, Serialize)]
pub(super) struct Packet {
    /// Offset in the frame.
    pub(super) offset: usize,
    pub(super) length: usize,
    pub(super) destination: String,
    pub(super) source: String,
    /// VID of the outermost tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vlan: Option<u16>,
    /// EtherType after the VLAN tag.
    pub(super) ethertype: String,
}

/// The error in an aggregate.
#[derive(Debug, Serialize)]
pub(super) struct Rejected {
    /// Name of its counter.
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Totals of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) frames: u64,
    pub(super) aggregates: u64,
    pub(super) packets: u64,
    pub(super) rejected: u64,
}
