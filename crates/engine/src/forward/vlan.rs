//! VLAN tags (IEEE 802.1Q) at the edge of a bridge: the VLAN of a frame, and its tag when it leaves.

use crate::spec::Vlan;
use packet::{Segment, ethertype, header_len};

/// Bytes of destination and source address, after which a tag goes.
pub(super) const ADDRESSES: u32 = header_len::MAC_ADDRESSES as u32;
/// Bytes of a tag.
pub(super) const TAG: u32 = header_len::VLAN_TAG as u32;
/// First bytes of a VLAN tag. Provider tags (IEEE 802.1ad) count as no tag: the bridge carries such frames in the VLAN
/// of the port, or not at all.
const TPID: [u8; 2] = ethertype::VLAN.to_be_bytes();

/// The VLAN of a frame, and the tag with which it leaves where frames are tagged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    bytes: [u8; 4],
    carried: Carried,
}

/// Kind of tag that a frame arrived with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carried {
    None,
    /// A tag of VLAN 0, which carries only a priority.
    Priority,
    Vlan,
}

impl Tag {
    /// The tag of a frame without one.
    pub(super) const NONE: Tag = Tag { bytes: [TPID[0], TPID[1], 0, 0], carried: Carried::None };

    /// Reads the tag of a frame that begins with these bytes. A frame that ends before the EtherType after the tag has none.
    pub(super) fn of(head: &[u8]) -> Tag {
        let found = head.get(..18).map(|b| [b[12], b[13], b[14], b[15]]).filter(|b| b[..2] == TPID);
        found.map_or(Tag::NONE, |bytes| {
            let tag = Tag { bytes, carried: Carried::Vlan };
            Tag { carried: if tag.vid() == 0 { Carried::Priority } else { Carried::Vlan }, bytes }
        })
    }

    pub(super) fn vid(&self) -> u16 {
        u16::from_be_bytes([self.bytes[2], self.bytes[3]]) & 0xfff
    }

    pub(super) fn bytes(&self) -> &[u8; 4] {
        &self.bytes
    }

    /// Returns the tag for VLAN `vid`, with the same priority.
    fn with(self, vid: u16) -> Tag {
        let [high, low] = vid.to_be_bytes();
        let [.., priority, _] = self.bytes;
        Tag { bytes: [TPID[0], TPID[1], priority & 0xf0 | high & 0x0f, low], ..self }
    }
}

/// VLANs of a port, as the bridge uses them.
pub(super) enum Membership {
    Ignore,
    Access(u16),
    /// One bit per VLAN.
    Trunk(Box<[u64; 64]>),
    /// No port stands there.
    Nobody,
}

impl Membership {
    pub(super) fn new(vlan: &Vlan) -> Membership {
        match vlan {
            Vlan::Ignore => Membership::Ignore,
            Vlan::Access(vid) => Membership::Access(*vid),
            Vlan::Trunk(vids) => {
                let mut bits = Box::new([0; 64]);
                // 0 is no VLAN, and 4095 is reserved.
                let all = (1..4095).filter(|vid| vids.is_empty() || vids.contains(vid));
                all.for_each(|vid| bits[usize::from(vid / 64)] |= 1 << (vid % 64));
                Membership::Trunk(bits)
            }
        }
    }

    /// Returns the VLAN of a frame that arrives here with this tag; `None` if the port does not accept it.
    pub(super) fn classify(&self, tag: Tag) -> Option<Tag> {
        match (self, tag.carried) {
            (Membership::Ignore, _) => Some(Tag::NONE),
            (Membership::Access(vid), Carried::None | Carried::Priority) => Some(tag.with(*vid)),
            (Membership::Trunk(_), Carried::Vlan) if self.carries(tag.vid()) => Some(tag),
            (Membership::Access(_) | Membership::Trunk(_) | Membership::Nobody, _) => None,
        }
    }

    /// Reports whether frames of this VLAN may leave here.
    pub(super) fn carries(&self, vid: u16) -> bool {
        match self {
            Membership::Ignore => vid == 0,
            Membership::Access(own) => *own == vid,
            Membership::Trunk(bits) => bits[usize::from(vid / 64) & 63] & 1 << (vid % 64) != 0,
            Membership::Nobody => false,
        }
    }

    /// Returns the change to a frame that leaves here.
    pub(super) fn egress(&self, tag: &Tag) -> Edit {
        match (self, tag.carried) {
            (Membership::Trunk(_), Carried::None) => Edit::Push,
            (Membership::Trunk(_), Carried::Priority) => Edit::Replace,
            (Membership::Access(_), Carried::Priority | Carried::Vlan) => Edit::Pop,
            _ => Edit::Keep,
        }
    }
}

/// A change to a frame's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    Keep,
    Push,
    Replace,
    Pop,
}

/// Returns those of a frame's segments that lie from byte `from` up to byte `to`.
pub(super) fn part<'b>(
    segments: impl Iterator<Item = Segment<'b>>,
    from: u32,
    to: u32,
) -> impl Iterator<Item = Segment<'b>> {
    let mut at = 0;
    segments.filter_map(move |segment| {
        let start = at;
        at += segment.len();
        let (segment, _) = segment.split_at(to.saturating_sub(start));
        let (_, segment) = segment.split_at(from.saturating_sub(start));
        (!segment.is_empty()).then_some(segment)
    })
}
