//! The fields of packets that can be matched and set, as OXM headers (Section 7.2.2.2).

use super::message::{Put, Reader};

/// OXM class of the basic fields.
const OPENFLOW_BASIC: u16 = 0x8000;

/// A field of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Named as in the specification.
pub enum Field {
    InPort,
    Metadata,
    EthDst,
    EthSrc,
    EthType,
    VlanVid,
    VlanPcp,
    IpDscp,
    IpEcn,
    IpProto,
    Ipv4Src,
    Ipv4Dst,
    TcpSrc,
    TcpDst,
    UdpSrc,
    UdpDst,
    SctpSrc,
    SctpDst,
    Icmpv4Type,
    Icmpv4Code,
    ArpOp,
    ArpSpa,
    ArpTpa,
    ArpSha,
    ArpTha,
    Ipv6Src,
    Ipv6Dst,
    Ipv6Flabel,
    Icmpv6Type,
    Icmpv6Code,
    NdTarget,
    NdSll,
    NdTll,
    MplsLabel,
    MplsTc,
    MplsBos,
    TunnelId,
}

/// All fields, each after its prerequisites.
pub(crate) const FIELDS: [Field; 37] = {
    use Field::*;
    [
        InPort, Metadata, EthDst, EthSrc, EthType, VlanVid, VlanPcp, IpDscp, IpEcn, IpProto, Ipv4Src, Ipv4Dst, TcpSrc,
        TcpDst, UdpSrc, UdpDst, SctpSrc, SctpDst, Icmpv4Type, Icmpv4Code, ArpOp, ArpSpa, ArpTpa, ArpSha, ArpTha,
        Ipv6Src, Ipv6Dst, Ipv6Flabel, Icmpv6Type, Icmpv6Code, NdTarget, NdSll, NdTll, MplsLabel, MplsTc, MplsBos,
        TunnelId,
    ]
};

impl Field {
    /// Returns its number in OXM headers.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Field::InPort => 0,
            Field::Metadata => 2,
            Field::EthDst => 3,
            Field::EthSrc => 4,
            Field::EthType => 5,
            Field::VlanVid => 6,
            Field::VlanPcp => 7,
            Field::IpDscp => 8,
            Field::IpEcn => 9,
            Field::IpProto => 10,
            Field::Ipv4Src => 11,
            Field::Ipv4Dst => 12,
            Field::TcpSrc => 13,
            Field::TcpDst => 14,
            Field::UdpSrc => 15,
            Field::UdpDst => 16,
            Field::SctpSrc => 17,
            Field::SctpDst => 18,
            Field::Icmpv4Type => 19,
            Field::Icmpv4Code => 20,
            Field::ArpOp => 21,
            Field::ArpSpa => 22,
            Field::ArpTpa => 23,
            Field::ArpSha => 24,
            Field::ArpTha => 25,
            Field::Ipv6Src => 26,
            Field::Ipv6Dst => 27,
            Field::Ipv6Flabel => 28,
            Field::Icmpv6Type => 29,
            Field::Icmpv6Code => 30,
            Field::NdTarget => 31,
            Field::NdSll => 32,
            Field::NdTll => 33,
            Field::MplsLabel => 34,
            Field::MplsTc => 35,
            Field::MplsBos => 36,
            Field::TunnelId => 38,
        }
    }

    /// Returns its word, shift and width in a key. Fields that no packet has both of share a place.
    pub(crate) const fn place(self) -> (usize, u32, u32) {
        use Field::*;
        match self {
            InPort => (0, 32, 32),
            EthType => (0, 16, 16),
            VlanPcp => (0, 13, 3),
            VlanVid => (0, 0, 13),
            EthDst => (1, 16, 48),
            TcpSrc | UdpSrc | SctpSrc => (1, 0, 16),
            Icmpv4Type | Icmpv6Type => (1, 0, 8),
            EthSrc => (2, 16, 48),
            TcpDst | UdpDst | SctpDst => (2, 0, 16),
            Icmpv4Code | Icmpv6Code => (2, 0, 8),
            TunnelId => (3, 0, 64),
            Ipv6Src => (4, 0, 128),
            ArpSha => (4, 0, 48),
            MplsLabel => (4, 12, 20),
            MplsTc => (4, 9, 3),
            MplsBos => (4, 8, 1),
            Ipv4Src | ArpSpa => (5, 0, 32),
            Ipv6Dst => (6, 0, 128),
            ArpTha => (6, 0, 48),
            Ipv4Dst | ArpTpa => (7, 0, 32),
            IpProto => (8, 0, 8),
            ArpOp => (8, 0, 16),
            IpDscp => (8, 18, 6),
            IpEcn => (8, 16, 2),
            Ipv6Flabel => (8, 24, 20),
            Metadata => (9, 0, 64),
            NdTarget => (10, 0, 128),
            NdSll | NdTll => (12, 0, 48),
        }
    }

    /// Returns the mask of all its bits.
    pub(crate) const fn all(self) -> u128 {
        u128::MAX >> (128 - self.place().2)
    }

    /// Returns the length of its value in bytes.
    pub(crate) const fn len(self) -> usize {
        match self {
            // As in the specification, although 20 bits fit into three.
            Field::Ipv6Flabel | Field::MplsLabel => 4,
            _ => self.place().2.div_ceil(8) as usize,
        }
    }

    /// Returns its OXM header, without mask.
    pub(crate) const fn header(self) -> u32 {
        (OPENFLOW_BASIC as u32) << 16 | (self.number() as u32) << 9 | self.len() as u32
    }

    /// Returns its OXM header with a mask, which doubles the length.
    pub(crate) const fn masked_header(self) -> u32 {
        self.header() + (1 << 8) + self.len() as u32
    }

    /// Reports whether it is in the transport header, which later fragments do not have.
    pub(crate) const fn is_transport(self) -> bool {
        use Field::*;
        matches!(self, TcpSrc | TcpDst | UdpSrc | UdpDst | SctpSrc | SctpDst)
            || matches!(self, Icmpv4Type | Icmpv4Code | Icmpv6Type | Icmpv6Code | NdTarget | NdSll | NdTll)
    }

    /// Reports whether it may be matched with a mask.
    pub(crate) const fn maskable(self) -> bool {
        use Field::*;
        matches!(self, Metadata | EthDst | EthSrc | VlanVid | Ipv4Src | Ipv4Dst | Ipv6Src | Ipv6Dst | TunnelId)
            || matches!(self, ArpSpa | ArpTpa | ArpSha | ArpTha | Ipv6Flabel)
    }

    /// Reports whether it may be set.
    pub(crate) const fn settable(self) -> bool {
        use Field::*;
        !matches!(self, InPort | Metadata | EthType | IpProto)
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
        let masked = mask & self.all() != self.all();
        out.u32(if masked { self.masked_header() } else { self.header() });
        out.put(&value.to_be_bytes()[16 - len..]);
        if masked {
            out.put(&mask.to_be_bytes()[16 - len..]);
        }
    }
}
