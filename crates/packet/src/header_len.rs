//! Lengths of headers, in bytes.

/// The two MAC addresses before an Ethernet header's type, or of its VLAN tag.
pub const MAC_ADDRESSES: usize = 12;
/// An Ethernet header without a VLAN tag.
pub const ETHERNET: usize = 14;
/// One VLAN tag.
pub const VLAN_TAG: usize = 4;
/// An MPLS label stack entry (RFC 3032).
pub const MPLS: usize = 4;
/// An IPv4 header without options.
pub const IPV4: usize = 20;
/// An IPv6 header without extension headers.
pub const IPV6: usize = 40;
/// A TCP header without options.
pub const TCP: usize = 20;
/// A UDP header.
pub const UDP: usize = 8;
/// An SCTP header, without chunks.
pub const SCTP: usize = 12;

/// The shortest payload of an Ethernet frame (IEEE 802.3): shorter payloads are padded with zeros on the way.
pub const MIN_ETHERNET_PAYLOAD: usize = 46;
