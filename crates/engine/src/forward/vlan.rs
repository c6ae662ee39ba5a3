//! VLAN tags (IEEE 802.1Q) at the edge of a bridge: which VLAN a frame is in, and how it leaves.

use crate::spec::Vlan;
use virtqueue::{Frame, Frames, Segment};

/// Bytes of destination and source address, after which a tag goes.
pub(super) const ADDRESSES: u32 = 12;
/// Bytes of a tag.
pub(super) const TAG: u32 = 4;
const TPID: [u8; 2] = [0x81, 0x00];

/// A port's VLANs as the bridge uses them.
pub(super) enum Membership {
    Ignore,
    Access(u16),
    /// One bit a VLAN.
    Trunk(Box<[u64; 64]>),
}

impl Membership {
    pub(super) fn new(vlan: &Vlan) -> Membership {
        match vlan {
            Vlan::Ignore => Membership::Ignore,
            Vlan::Access(vid) => Membership::Access(*vid),
            Vlan::Trunk(vids) if vids.is_empty() => Membership::Trunk(Box::new([u64::MAX; 64])),
            Vlan::Trunk(vids) => {
                let mut bits = Box::new([0; 64]);
                vids.iter().for_each(|vid| bits[usize::from(vid / 64) & 63] |= 1 << (vid % 64));
                Membership::Trunk(bits)
            }
        }
    }

    /// The VLAN of a frame that arrives here, and whether it carries the tag; `None` if it must not arrive here.
    pub(super) fn classify(&self, frames: &Frames<'_>, frame: &Frame<'_>) -> Option<(u16, bool)> {
        match (self, vid(frames, frame)) {
            (Membership::Ignore, _) => Some((0, false)),
            // A tag with VLAN 0 carries a priority only.
            (Membership::Access(vid), None) => Some((*vid, false)),
            (Membership::Access(vid), Some(0)) => Some((*vid, true)),
            (Membership::Access(_), Some(_)) => None,
            (Membership::Trunk(_), Some(vid)) if vid != 0 && self.carries(vid) => Some((vid, true)),
            (Membership::Trunk(_), _) => None,
        }
    }

    /// Frames of this VLAN may leave here.
    pub(super) fn carries(&self, vid: u16) -> bool {
        match self {
            Membership::Ignore => vid == 0,
            Membership::Access(own) => *own == vid,
            Membership::Trunk(bits) => bits[usize::from(vid / 64) & 63] & 1 << (vid % 64) != 0,
        }
    }

    /// What has to be done to a frame that leaves here.
    pub(super) fn egress(&self, tagged: bool) -> Edit {
        match (self, tagged) {
            (Membership::Trunk(_), false) => Edit::Push,
            (Membership::Access(_), true) => Edit::Pop,
            _ => Edit::Keep,
        }
    }
}

/// A change to a frame's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    Keep,
    Push,
    Pop,
}

/// The VID of the frame's tag, if it has one.
#[inline(always)]
pub(super) fn vid(frames: &Frames<'_>, frame: &Frame<'_>) -> Option<u16> {
    frames.peek::<16>(frame).and_then(|b| (b[12..14] == TPID).then(|| u16::from_be_bytes([b[14], b[15]]) & 0xfff))
}

/// The tag of VLAN `vid`, priority 0.
pub(super) fn tag(vid: u16) -> [u8; 4] {
    let [high, low] = vid.to_be_bytes();
    [TPID[0], TPID[1], high, low]
}

/// The segments of `frame` from byte `from` up to byte `to`.
pub(super) fn part<'b>(
    frames: &Frames<'b>,
    frame: &Frame<'b>,
    from: u32,
    to: u32,
) -> impl Iterator<Item = Segment<'b>> + use<'b> {
    let mut at = 0;
    frames.segments(frame).filter_map(move |segment| {
        let start = at;
        at += segment.len();
        let (segment, _) = segment.split_at(to.saturating_sub(start));
        let (_, segment) = segment.split_at(from.saturating_sub(start));
        (!segment.is_empty()).then_some(segment)
    })
}
