//! The fields that can be matched and set, and matches on them, as OXM (Section 7.2.2).

use crate::error::Error;
use crate::key::{Key, VLAN_PRESENT};
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
    const fn number(self) -> u8 {
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

    /// Reports whether it may be matched with a mask.
    pub(crate) const fn maskable(self) -> bool {
        use Field::*;
        matches!(self, EthDst | EthSrc | VlanVid | Ipv4Src | Ipv4Dst | Ipv6Src | Ipv6Dst | TunnelId)
    }

    /// Reports whether it may be set.
    pub(crate) const fn settable(self) -> bool {
        !matches!(self, Field::InPort | Field::EthType | Field::IpProto)
    }

    /// Reports whether packets that match `known` have this field (Section 7.2.2.6).
    pub(crate) fn exists_in(self, known: &Match) -> bool {
        let is = |field: Field, value: u128| known.exact(field) == Some(value);
        match self {
            Field::InPort | Field::EthDst | Field::EthSrc | Field::EthType | Field::VlanVid | Field::TunnelId => true,
            Field::VlanPcp => known.is_tagged(),
            Field::IpProto => is(Field::EthType, 0x0800) || is(Field::EthType, 0x86dd),
            Field::Ipv4Src | Field::Ipv4Dst => is(Field::EthType, 0x0800),
            Field::Ipv6Src | Field::Ipv6Dst => is(Field::EthType, 0x86dd),
            Field::TcpSrc | Field::TcpDst => is(Field::IpProto, 6),
            Field::UdpSrc | Field::UdpDst => is(Field::IpProto, 17),
        }
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

/// The packets that a flow applies to: those whose key has these values under this mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Match {
    pub(crate) value: Key,
    pub(crate) mask: Key,
}

impl Match {
    /// Returns a match on all packets.
    pub fn any() -> Match {
        Match::default()
    }

    /// Adds the condition that `field` has `value` under `mask`.
    pub fn with(mut self, field: Field, value: u128, mask: u128) -> Match {
        self.mask.set(field, mask);
        self.value.set(field, value & mask);
        self
    }

    /// Reports whether a packet with this key matches.
    #[inline]
    pub fn matches(&self, key: &Key) -> bool {
        key.and(&self.mask).is(&self.value)
    }

    /// Returns the value that `field` must have, if all its bits are matched.
    pub fn exact(&self, field: Field) -> Option<u128> {
        (self.mask.get(field) == field.all()).then(|| self.value.get(field))
    }

    /// Reports whether only packets with a VLAN tag match.
    pub(crate) fn is_tagged(&self) -> bool {
        self.value.get(Field::VlanVid) & u128::from(VLAN_PRESENT) != 0
    }

    /// Reports whether only packets without a VLAN tag match.
    pub(crate) fn is_untagged(&self) -> bool {
        !self.is_tagged() && self.mask.get(Field::VlanVid) & u128::from(VLAN_PRESENT) != 0
    }

    /// Reports whether all packets that match also match `wider`.
    pub fn is_within(&self, wider: &Match) -> bool {
        self.mask.and(&wider.mask) == wider.mask && self.value.and(&wider.mask) == wider.value
    }

    /// Reports whether a packet can match both.
    pub fn overlaps(&self, other: &Match) -> bool {
        let both = self.mask.and(&other.mask);
        self.value.and(&both) == other.value.and(&both)
    }

    /// Reads an `ofp_match` with its padding.
    pub(crate) fn read(reader: &mut Reader) -> Result<Match, Error> {
        let kind = reader.u16().ok_or(Error::MatchLen)?;
        let len = usize::from(reader.u16().ok_or(Error::MatchLen)?);
        if kind != 1 {
            return Err(Error::MatchType);
        }
        let padded = len.checked_sub(4).ok_or(Error::MatchLen)?;
        let mut fields = Reader(reader.take(padded).ok_or(Error::MatchLen)?);
        reader.take(len.next_multiple_of(8) - len).ok_or(Error::MatchLen)?;
        let mut found = Match::any();
        let mut seen = 0u64;
        while !fields.is_empty() {
            found.read_field(&mut fields, &mut seen)?;
        }
        Ok(found)
    }

    fn read_field(&mut self, fields: &mut Reader, seen: &mut u64) -> Result<(), Error> {
        let (field, masked, len) = Field::read_header(fields).ok_or(Error::MatchLen)?;
        let mut body = Reader(fields.take(len).ok_or(Error::MatchLen)?);
        let field = field.ok_or(Error::MatchField)?;
        if len != field.len() << u32::from(masked) {
            return Err(Error::MatchLen);
        }
        let value = body.number(field.len()).ok_or(Error::MatchLen)?;
        let mask = if masked { body.number(field.len()).ok_or(Error::MatchLen)? } else { field.all() };
        if masked && !field.maskable() {
            return Err(Error::MatchMask);
        }
        if *seen & 1 << field.number() != 0 {
            return Err(Error::MatchDuplicate);
        }
        *seen |= 1 << field.number();
        if !field.exists_in(self) {
            return Err(Error::MatchPrerequisite);
        }
        // A VID without the "present" bit is invalid.
        let vid_without_tag = field == Field::VlanVid && !masked && value != 0 && value & u128::from(VLAN_PRESENT) == 0;
        if value & !field.all() != 0 || vid_without_tag {
            return Err(Error::MatchValue);
        }
        if value & !mask != 0 {
            return Err(Error::MatchWildcards);
        }
        *self = self.with(field, value, mask);
        Ok(())
    }

    /// Appends an `ofp_match` with its padding.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put(&[0, 1, 0, 0]);
        for field in FIELDS {
            let mask = self.mask.get(field);
            if mask != 0 && field.exists_in(self) {
                field.write(out, self.value.get(field), mask);
            }
        }
        let len = out.len() - start;
        out[start + 2..start + 4].copy_from_slice(&(len as u16).to_be_bytes());
        out.zeros(len.next_multiple_of(8) - len);
    }
}
