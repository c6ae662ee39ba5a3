//! Matches on the fields of packets, as OXM (Section 7.2.2).

use crate::keys::{
    CacheKey, Key, NEIGHBOUR, NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION, TRANSPORT_PRESENT, VLAN_PRESENT,
};
use crate::wire::{Error, FIELDS, Field, Put, Reader};
use packet::{ethertype, ip_protocol};

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
        if field.is_transport() && mask != 0 {
            self.mask.0[8] |= TRANSPORT_PRESENT;
            self.value.0[8] |= TRANSPORT_PRESENT;
        }
        if matches!(field, Field::NdTarget | Field::NdSll | Field::NdTll) && mask != 0 {
            self.mask.0[8] |= NEIGHBOUR;
            self.value.0[8] |= NEIGHBOUR;
        }
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
    pub(super) fn is_tagged(&self) -> bool {
        self.value.get(Field::VlanVid) & u128::from(VLAN_PRESENT) != 0
    }

    /// Reports whether only packets without a VLAN tag match.
    pub(super) fn is_untagged(&self) -> bool {
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

    /// Reports whether all packets that match have `field` (Section 7.2.2.6).
    pub(super) fn has_field(&self, field: Field) -> bool {
        let is = |field: Field, value: u128| self.exact(field) == Some(value);
        let is_ipv4 = || is(Field::EthType, ethertype::IPV4.into());
        let is_ipv6 = || is(Field::EthType, ethertype::IPV6.into());
        let is_ip = || is_ipv4() || is_ipv6();
        let is_protocol = |number: u8| is(Field::IpProto, number.into());
        let is_icmpv6 = |kind: u8| is_ipv6() && is_protocol(ip_protocol::ICMPV6) && is(Field::Icmpv6Type, kind.into());
        use Field::*;
        match field {
            InPort | Metadata | EthDst | EthSrc | EthType | VlanVid | TunnelId => true,
            VlanPcp => self.is_tagged(),
            IpDscp | IpEcn | IpProto => is_ip(),
            Ipv4Src | Ipv4Dst => is_ipv4(),
            Ipv6Src | Ipv6Dst | Ipv6Flabel => is_ipv6(),
            TcpSrc | TcpDst => is_ip() && is_protocol(ip_protocol::TCP),
            UdpSrc | UdpDst => is_ip() && is_protocol(ip_protocol::UDP),
            SctpSrc | SctpDst => is_ip() && is_protocol(ip_protocol::SCTP),
            Icmpv4Type | Icmpv4Code => is_ipv4() && is_protocol(ip_protocol::ICMP),
            Icmpv6Type | Icmpv6Code => is_ipv6() && is_protocol(ip_protocol::ICMPV6),
            NdTarget => is_icmpv6(NEIGHBOUR_SOLICITATION) || is_icmpv6(NEIGHBOUR_ADVERTISEMENT),
            NdSll => is_icmpv6(NEIGHBOUR_SOLICITATION),
            NdTll => is_icmpv6(NEIGHBOUR_ADVERTISEMENT),
            ArpOp | ArpSpa | ArpTpa | ArpSha | ArpTha => is(EthType, ethertype::ARP.into()),
            MplsLabel | MplsTc | MplsBos => self.exact(EthType).is_some_and(|kind| ethertype::is_mpls(kind as u16)),
        }
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
        if !self.has_field(field) {
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
            if mask != 0 && self.has_field(field) {
                field.write(out, self.value.get(field), mask);
            }
        }
        let len = out.len() - start;
        out[start + 2..start + 4].copy_from_slice(&(len as u16).to_be_bytes());
        out.zeros(len.next_multiple_of(8) - len);
    }
}
