//! Reasons to reject an aggregate. Each has a name, for counters and documentation.

/// Reason to reject a frame that claims to be an aggregate. No part of such a frame is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reject {
    /// The version is unknown to this crate.
    #[error("aggregate version {0} is not known; this end speaks version {known}", known = crate::header::VERSION)]
    UnknownVersion(u8),
    /// The type of the embedded packets is unknown to this crate.
    #[error("embedded packets of type {0} are not known; this end takes type {known}", known = crate::header::ETHERNET)]
    UnknownType(u8),
    /// The number of embedded packets is zero.
    #[error("the aggregate says that no packet is embedded")]
    Empty,
    /// There are more embedded packets than the caller has room for.
    #[error("the aggregate embeds {number} packets, more than the {room} that are taken")]
    TooMany {
        /// The number in the header.
        number: u16,
        /// The most packets that the caller takes.
        room: usize,
    },
    /// The bytes end before a header or an embedded packet does.
    #[error("{needed} bytes are needed for what the headers say, but there are {there}")]
    Truncated {
        /// The end of the header or packet.
        needed: usize,
        /// The end of the bytes.
        there: usize,
    },
    /// An embedded packet is too short to be an Ethernet frame.
    #[error("an embedded packet of {0} bytes is shorter than an Ethernet header")]
    Runt(u16),
    /// A padding byte is not zero.
    #[error("the padding byte at offset {0} is not zero")]
    BadPadding(usize),
    /// Two lengths contradict each other, or bytes follow the last embedded packet.
    #[error("the embedded packets or headers take {expected} bytes, but the length around them says {there}")]
    LengthMismatch {
        /// The end of the contents.
        expected: usize,
        /// The end according to the enclosing length.
        there: usize,
    },
    /// The outer packet is the first fragment of several: aggregates are never fragmented.
    #[error("the aggregate was fragmented on its way; make the sender's aggregation mtu fit the path")]
    Fragmented,
    /// The outer IPv4 header's checksum is wrong.
    #[error("the outer IPv4 header checksum is wrong")]
    BadIpChecksum,
    /// The outer UDP checksum is wrong.
    #[error("the outer UDP checksum is wrong")]
    BadUdpChecksum,
    /// There is no UDP checksum over IPv6, and the receiver requires one.
    #[error("UDP over IPv6 without a checksum is not accepted here; let the sender compute it, or accept zero")]
    NoUdpChecksum,
    /// The VXLAN header has no valid VNI.
    #[error("the VXLAN header's flags {0:#04x} don't have the I flag")]
    BadVxlanFlags(u8),
}

impl Reject {
    /// Returns the short name of the reason, for counters and metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Reject::UnknownVersion(_) => "unknown-version",
            Reject::UnknownType(_) => "unknown-type",
            Reject::Empty => "empty",
            Reject::TooMany { .. } => "too-many",
            Reject::Truncated { .. } => "truncated",
            Reject::Runt(_) => "embedded-runt",
            Reject::BadPadding(_) => "bad-padding",
            Reject::LengthMismatch { .. } => "length-mismatch",
            Reject::Fragmented => "fragmented",
            Reject::BadIpChecksum => "bad-ip-checksum",
            Reject::BadUdpChecksum => "bad-udp-checksum",
            Reject::NoUdpChecksum => "no-udp-checksum",
            Reject::BadVxlanFlags(_) => "bad-vxlan-flags",
        }
    }
}
