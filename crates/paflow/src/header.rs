//! The fixed part of an aggregate: version, type, number of embedded packets.

use packet::{ethertype, header_len};

/// The version of the format.
pub const VERSION: u8 = 1;

/// The type of embedded packets that are Ethernet frames, without FCS.
pub const ETHERNET: u8 = 1;

/// Length of the header.
pub const HEADER_LEN: usize = 4;

/// Length of the length before each embedded packet.
pub const LENGTH_LEN: usize = 2;

/// The shortest packet that can be embedded: an Ethernet header.
pub const MIN_PACKET: u16 = header_len::ETHERNET as u16;

/// The default UDP port, from the dynamic range of RFC 6335, which is never assigned.
pub const UDP_PORT: u16 = 50_261;

/// The EtherType of an aggregate directly in an Ethernet frame, as inside VXLAN.
pub const ETHERTYPE: u16 = ethertype::EXPERIMENTAL_1;

/// Returns the bytes that an embedded packet of `len` bytes takes: length field, packet, and padding to an even offset.
#[inline(always)]
pub const fn entry_size(len: u16) -> u32 {
    LENGTH_LEN as u32 + ((len as u32 + 1) & !1)
}

/// The fixed part of an aggregate, of the version and type that this crate speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of embedded packets.
    pub number: u16,
}

impl Header {
    /// Returns the header as on the wire.
    #[inline(always)]
    pub const fn to_bytes(self) -> [u8; HEADER_LEN] {
        let [high, low] = self.number.to_be_bytes();
        [VERSION, ETHERNET, high, low]
    }
}
