//! The fields of packets that can be matched and set, as OXM headers (Section 7.2.2.2).

use crate::wire::{Put, Reader};

/// OXM class of the basic fields.
const OPENFLOW_BASIC: u16 = 0x8000;

/// A field of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Named as in the specification.
pub enum Field {
    InPort,
    EthDst,
    EthSrc,
    EthType,
    VlanVid,
    VlanPcp,
    IpProto,
    Ipv4Src,
    Ipv4Dst,
    TcpSrc,
    TcpDst,
    UdpSrc,
    UdpDst,
    Ipv6Src,
    Ipv6Dst,
    TunnelId,
}

/// All fields, each after its prerequisites.
pub(crate) const FIELDS: [Field; 16] = [
    Field::InPort,
    Field::EthDst,
    Field::EthSrc,
    Field::EthType,
    Field::VlanVid,
    Field::VlanPcp,
    Field::IpProto,
    Field::Ipv4Src,
    Field::Ipv4Dst,
    Field::TcpSrc,
    Field::TcpDst,
    Field::UdpSrc,
    Field::UdpDst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::TunnelId,
];

impl Field {
    /// Returns its number in OXM headers.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Field::InPort => 0,
            Field::EthDst => 3,
            Field::EthSrc => 4,
            Field::EthType => 5,
            Field::VlanVid => 6,
            Field::VlanPcp => 7,
            Field::IpProto => 10,
            Field::Ipv4Src => 11,
            Field::Ipv4Dst => 12,
            Field::TcpSrc => 13,
            Field::TcpDst => 14,
            Field::UdpSrc => 15,
            Field::UdpDst => 16,
            Field::Ipv6Src => 26,
            Field::Ipv6Dst => 27,
            Field::TunnelId => 38,
        }
    }

    /// Returns its word, shift and width in a key.
    pub(crate) const fn place(self) -> (usize, u32, u32) {
        match self {
            Field::InPort => (0, 32, 32),
            Field::EthType => (0, 16, 16),
            Field::VlanPcp => (0, 13, 3),
            Field::VlanVid => (0, 0, 13),
            Field::EthDst => (1, 16, 48),
            Field::TcpSrc | Field::UdpSrc => (1, 0, 16),
            Field::EthSrc => (2, 16, 48),
            Field::TcpDst | Field::UdpDst => (2, 0, 16),
            Field::TunnelId => (3, 0, 64),
            Field::Ipv4Src => (5, 0, 32),
            Field::Ipv4Dst => (7, 0, 32),
            Field::Ipv6Src => (4, 0, 128),
            Field::Ipv6Dst => (6, 0, 128),
            Field::IpProto => (8, 0, 8),
        }
    }

    /// Returns the mask of all its bits.
    pub(crate) const fn all(self) -> u128 {
        u128::MAX >> (128 - self.place().2)
    }

    /// Returns the length of its value in bytes.
    pub(crate) const fn len(self) -> usize {
        self.place().2.div_ceil(8) as usize
    }

    /// Returns its OXM header, without mask.
    pub(crate) const fn header(self) -> u32 {
        (OPENFLOW_BASIC as u32) << 16 | (self.number() as u32) << 9 | self.len() as u32
    }

    /// Reports whether it is a port of TCP or UDP.
    pub(crate) const fn is_port(self) -> bool {
        matches!(self, Field::TcpSrc | Field::TcpDst | Field::UdpSrc | Field::UdpDst)
    }

    /// Reports whether it may be matched with a mask.
    pub(crate) const fn maskable(self) -> bool {
        use Field::*;
        matches!(self, EthDst | EthSrc | VlanVid | Ipv4Src | Ipv4Dst | Ipv6Src | Ipv6Dst | TunnelId)
    }

    /// Reports whether it may be set.
    pub(crate) const fn settable(self) -> bool {
        !matches!(self, Field::InPort | Field::EthType | Field::IpProto)
    }

    /// Reads an OXM header. Returns the field, or `None` in its place if it is unknown; whether there is a mask; and the
    /// length of the value and mask.
    pub(crate) fn read_header(reader: &mut Reader) -> Option<(Option<Field>, bool, usize)> {
        let class = reader.u16()?;
        let [number, len] = reader.array()?;
        let known = |field: &Field| class == OPENFLOW_BASIC && field.number() == number >> 1;
        Some((FIELDS.into_iter().find(known), number & 1 == 1, len.into()))
    }

    /// Appends the field with a value, and with a mask unless all its bits are set.
    pub(crate) fn write(self, out: &mut Vec<u8>, value: u128, mask: u128) {
        let len = self.len();
        // The mask flag doubles the length.
        let masked = mask & self.all() != self.all();
        out.u32(if masked { self.header() + (1 << 8) + len as u32 } else { self.header() });
        out.put(&value.to_be_bytes()[16 - len..]);
        if masked {
            out.put(&mask.to_be_bytes()[16 - len..]);
        }
    }
}
