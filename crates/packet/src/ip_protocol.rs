//! IP protocol numbers: the header that follows an IP header (IANA, "Protocol Numbers").

/// IPv6 hop-by-hop options (RFC 8200).
pub const HOP_BY_HOP: u8 = 0;
/// ICMP (RFC 792).
pub const ICMP: u8 = 1;
/// IPv4 in IP (RFC 2003).
pub const IPV4: u8 = 4;
/// TCP (RFC 9293).
pub const TCP: u8 = 6;
/// UDP (RFC 768).
pub const UDP: u8 = 17;
/// IPv6 in IP (RFC 4213).
pub const IPV6: u8 = 41;
/// IPv6 routing header (RFC 8200).
pub const ROUTING: u8 = 43;
/// IPv6 fragment header (RFC 8200).
pub const FRAGMENT: u8 = 44;
/// GRE (RFC 2784).
pub const GRE: u8 = 47;
/// Authentication header (RFC 4302).
pub const AUTHENTICATION: u8 = 51;
/// ICMPv6 (RFC 4443).
pub const ICMPV6: u8 = 58;
/// IPv6 destination options (RFC 8200).
pub const DESTINATION_OPTIONS: u8 = 60;
/// SCTP (RFC 9260).
pub const SCTP: u8 = 132;
