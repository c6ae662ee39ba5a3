//! The aggregation table as controllers set it.
//!
//! It is the last table, [`TABLE`]. A flow in it matches a service chain and nothing else: one VID (`vlan_vid`) or one VNI
//! (`tunnel_id`). It sets the next hop, in one of two ways:
//!
//! - an experimenter action in apply-actions or write-actions:
//!
//!   ```text
//!    0                   1                   2                   3
//!    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!   +-------------------------------+-------------------------------+
//!   |   OFPAT_EXPERIMENTER 0xffff   |          Length (16)          |
//!   +-------------------------------+-------------------------------+
//!   |                    Experimenter 0x4d494c4c                    |
//!   +-------------------------------+-------------------------------+
//!   |          SET_NFI (1)          |             NFI-ID            |
//!   +-------------------------------+-------------------------------+
//!   |                         padding, zero                         |
//!   +---------------------------------------------------------------+
//!   ```
//!
//! - the instruction write-metadata with the NFI-ID as value and all bits in the mask, which any controller can send.
//!
//! NFI-ID 0, or no instruction, stands for no next hop. Priorities, timeouts, cookies and statistics are as in any table.
//!
//! **Relayed.** A controller without a channel to this switch can wrap the FLOW_MOD in a PACKET_OUT of another switch: the
//! packet is an Ethernet frame of type [`RELAY_ETHERTYPE`] whose payload is the message, padded at its end if necessary.
//! Only flows of the aggregation table can be changed this way, and there is no answer.

use super::matching::Match;
use crate::keys::VLAN_PRESENT;
use crate::limits::FORWARDING;
use crate::wire::ofp::{HEADER_LEN, VERSION, message};
use crate::wire::{Error, Field};
use packet::{ethertype, header_len};

/// The aggregation table's number: it follows those that forward.
pub const TABLE: u8 = FORWARDING;

/// The experimenter of the action: "MILL".
pub const EXPERIMENTER: u32 = 0x4d49_4c4c;

/// The experimenter's action that sets the next hop.
pub const SET_NFI: u16 = 1;

/// EtherType of relayed messages.
pub const RELAY_ETHERTYPE: u16 = ethertype::EXPERIMENTAL_2;

/// The identifier of a service chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceChain {
    /// A VLAN's VID.
    Vid(u16),
    /// A VXLAN's VNI.
    Vni(u32),
}

impl ServiceChain {
    /// Returns the chain that `found` matches, if it matches one chain and nothing else.
    pub(crate) fn of(found: &Match) -> Result<ServiceChain, Error> {
        if let Some(vid) = found.exact(Field::VlanVid)
            && *found == Match::any().with(Field::VlanVid, vid, u128::MAX)
        {
            let vid = vid as u16;
            return if vid & VLAN_PRESENT == 0 {
                Err(Error::MatchValue)
            } else {
                Ok(ServiceChain::Vid(vid & !VLAN_PRESENT))
            };
        }
        match found.exact(Field::TunnelId) {
            Some(id) if *found != Match::any().with(Field::TunnelId, id, u128::MAX) => Err(Error::MatchWildcards),
            Some(id) if id >= 1 << 24 => Err(Error::MatchValue),
            Some(id) => Ok(ServiceChain::Vni(id as u32)),
            None => Err(Error::MatchWildcards),
        }
    }
}

/// Returns the FLOW_MOD in a relayed frame; `None` if the frame has another EtherType, or its length field is wrong.
pub fn relayed(frame: &[u8]) -> Option<&[u8]> {
    let (header, message) = frame.split_at_checked(header_len::ETHERNET)?;
    if header[header_len::MAC_ADDRESSES..] != RELAY_ETHERTYPE.to_be_bytes() {
        return None;
    }
    let [version, kind, l0, l1, ..] = *message.first_chunk::<HEADER_LEN>()?;
    let len = usize::from(u16::from_be_bytes([l0, l1]));
    (version == VERSION && kind == message::FLOW_MOD && len >= HEADER_LEN).then(|| message.get(..len))?
}
