//! A VLAN tag outside of its frame.

use packet::header_len::VLAN_TAG;

/// A VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// Tag protocol identifier: 0x8100 (802.1Q) or 0x88a8 (802.1ad).
    pub tpid: u16,
    /// Tag control information: priority, drop eligibility and VLAN identifier.
    pub tci: u16,
}

impl Vlan {
    /// Returns the tag as it appears in a frame, after the two MAC addresses.
    pub const fn to_bytes(self) -> [u8; VLAN_TAG] {
        let [a, b] = self.tpid.to_be_bytes();
        let [c, d] = self.tci.to_be_bytes();
        [a, b, c, d]
    }
}
