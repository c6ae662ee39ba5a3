//! EtherTypes: the protocol that follows an Ethernet header or a VLAN tag (IEEE 802 numbers of IANA).

/// IPv4 (RFC 894).
pub const IPV4: u16 = 0x0800;
/// ARP (RFC 826).
pub const ARP: u16 = 0x0806;
/// A VLAN tag (IEEE 802.1Q, C-tag).
pub const VLAN: u16 = 0x8100;
/// IPv6 (RFC 2464).
pub const IPV6: u16 = 0x86dd;
/// MPLS (RFC 5332).
pub const MPLS: u16 = 0x8847;
/// MPLS with labels that the upstream router assigned (RFC 5332).
pub const MPLS_UPSTREAM: u16 = 0x8848;
/// A provider's VLAN tag (IEEE 802.1ad, S-tag).
pub const SERVICE_VLAN: u16 = 0x88a8;
/// IEEE 802 local experimental 1.
pub const EXPERIMENTAL_1: u16 = 0x88b5;
/// IEEE 802 local experimental 2.
pub const EXPERIMENTAL_2: u16 = 0x88b6;

/// Reports whether a VLAN tag of either kind follows.
#[inline(always)]
pub const fn is_vlan(ethertype: u16) -> bool {
    matches!(ethertype, VLAN | SERVICE_VLAN)
}

/// Reports whether MPLS labels follow, of either kind.
#[inline(always)]
pub const fn is_mpls(ethertype: u16) -> bool {
    matches!(ethertype, MPLS | MPLS_UPSTREAM)
}
