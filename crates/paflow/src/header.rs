//! The fixed part of an aggregate: version, type, number of embedded packets.

use crate::octets::Octets;
use crate::reject::Reject;

/// The version of the format.
pub const VERSION: u8 = 1;

/// The type of embedded packets that are Ethernet frames, without FCS.
pub const ETHERNET: u8 = 1;

/// Length of the header.
pub const HEADER_LEN: usize = 4;

/// Length of the length before each embedded packet.
pub const LENGTH_LEN: usize = 2;

/// The shortest packet that can be embedded: an Ethernet header.
pub const MIN_PACKET: u16 = 14;

/// The default UDP port, from the dynamic range of RFC 6335, which is never assigned.
pub const UDP_PORT: u16 = 50_261;

/// The EtherType of an aggregate directly in an Ethernet frame, as inside VXLAN: IEEE 802 local experimental 1.
pub const ETHERTYPE: u16 = 0x88b5;

/// Returns the bytes that an embedded packet of `len` bytes takes: length field, packet, and padding to an even offset.
#[inline(always)]
pub const fn entry_size(len: u16) -> u32 {
    LENGTH_LEN as u32 + ((len as u32 + 1) & !1)
}

/// The fixed part of an aggregate, of the version and type that this crate speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How many packets are embedded.
    pub number: u16,
}

impl Header {
    /// Returns the header as on the wire.
    #[inline(always)]
    pub const fn to_bytes(self) -> [u8; HEADER_LEN] {
        let [high, low] = self.number.to_be_bytes();
        [VERSION, ETHERNET, high, low]
    }

    /// Reads the header at offset `at`. Checks the version first: another version may have changed everything else.
    #[inline(always)]
    pub fn read<S: Octets + ?Sized>(bytes: &S, at: usize) -> Result<Header, Reject> {
        let Some([version, kind, high, low]) = bytes.read::<HEADER_LEN>(at) else {
            if let Some(version) = bytes.byte(at).filter(|&version| version != VERSION) {
                return Err(Reject::UnknownVersion(version));
            }
            return Err(Reject::Truncated { needed: HEADER_LEN, there: bytes.size().saturating_sub(at) });
        };
        if version != VERSION {
            return Err(Reject::UnknownVersion(version));
        }
        if kind != ETHERNET {
            return Err(Reject::UnknownType(kind));
        }
        match u16::from_be_bytes([high, low]) {
            0 => Err(Reject::Empty),
            number => Ok(Header { number }),
        }
    }
}
