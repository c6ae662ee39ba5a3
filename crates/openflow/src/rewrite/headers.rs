//! The headers of a packet, as actions change them.

use super::field::{get, is_beyond, may_be_beyond, set};
use super::ttl;
use super::undone::Undone;
use crate::flows::Action;
use crate::keys::{HEADER_BYTES, Key, Offsets, SNAP_LEN};
use crate::wire::Field;
use packet::header_len::{MAC_ADDRESSES, MPLS, VLAN_TAG};

/// Bytes in front, for added VLAN tags and MPLS labels.
const ROOM: usize = 32;

/// Maximum number of bytes that are copied from a packet.
const MOST: usize = 2 * HEADER_BYTES;

/// The headers of one packet.
#[derive(Clone, Debug)]
pub struct Headers {
    bytes: [u8; ROOM + MOST],
    start: usize,
    end: usize,
    /// Length of the packet as it came.
    len: usize,
    /// The tunnel that the packet is in, or that an action has set.
    pub tunnel_id: u64,
}

impl Default for Headers {
    /// Returns those of an empty packet.
    fn default() -> Headers {
        Headers { bytes: [0; ROOM + MOST], start: ROOM, end: ROOM, len: 0, tunnel_id: 0 }
    }
}

impl Headers {
    /// Copies the headers of a packet of `len` bytes that begins with `packet`, and is in tunnel `tunnel_id` or 0.
    pub fn new(packet: &[u8], len: usize, tunnel_id: u64) -> Headers {
        let mut headers = Headers::default();
        headers.set(packet, len, tunnel_id);
        headers
    }

    /// Does the same in place.
    pub fn set(&mut self, packet: &[u8], len: usize, tunnel_id: u64) {
        let taken = packet.len().min(HEADER_BYTES);
        self.bytes[ROOM..ROOM + taken].copy_from_slice(&packet[..taken]);
        (self.start, self.end, self.len, self.tunnel_id) = (ROOM, ROOM + taken, len, tunnel_id);
    }

    /// Returns the current headers. They replace the first [`Self::taken`] bytes of the packet.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Returns the number of bytes copied from the packet.
    pub fn taken(&self) -> usize {
        self.end - ROOM
    }

    /// Returns the key of the packet as it is now, received at port `in_port`: of at most as many bytes as that of any packet.
    pub fn key(&self, in_port: u32) -> Option<Key> {
        let bytes = self.bytes();
        Key::extract(&bytes[..bytes.len().min(HEADER_BYTES)], in_port, self.tunnel_id)
    }

    /// Reports whether there are bytes of the packet that were not copied.
    fn is_part(&self) -> bool {
        self.taken() < self.len
    }

    /// Copies more of the packet, if it is longer and there is room.
    #[cold]
    fn take_more(&mut self, more: impl Fn(usize, &mut [u8])) {
        let (taken, end) = (self.taken(), self.len.min(MOST));
        if taken < end {
            more(taken, &mut self.bytes[self.end..ROOM + end]);
            self.end = ROOM + end;
        }
    }

    /// Applies one action; the caller handles outputs. A field that the packet does not have is not set. `more` copies bytes of the
    /// packet from an offset on, if they are needed.
    pub fn apply(&mut self, action: &Action, more: impl Fn(usize, &mut [u8])) -> Result<(), Undone> {
        if self.is_part() && self.bytes().len() < HEADER_BYTES {
            // Tags or labels were removed: the bytes behind them may be needed.
            self.take_more(&more);
        }
        match *action {
            Action::PushVlan(ethertype) => self.push_vlan(ethertype),
            Action::PopVlan => self.pop_vlan(),
            Action::PushMpls(ethertype) => self.push_mpls(ethertype),
            Action::PopMpls(ethertype) => self.pop_mpls(ethertype),
            Action::SetField(Field::TunnelId, id) => self.tunnel_id = id as u64,
            Action::SetField(field, value) => return self.set_field(field, value, more),
            Action::Output { .. } | Action::Group(_) | Action::SetNfi(_) => {}
            Action::SetMplsTtl(_)
            | Action::DecMplsTtl
            | Action::SetIpTtl(_)
            | Action::DecIpTtl
            | Action::CopyTtlOut
            | Action::CopyTtlIn => return ttl::apply(&mut self.bytes[self.start..self.end], action),
        }
        Ok(())
    }

    fn set_field(&mut self, field: Field, value: u128, more: impl Fn(usize, &mut [u8])) -> Result<(), Undone> {
        let Some(mut offsets) = Offsets::of(self.bytes()) else { return Ok(()) };
        if self.is_part() && may_be_beyond(self.bytes(), &offsets) {
            offsets = self.reach(field, more)?;
        }
        set(&mut self.bytes[self.start..self.end], &offsets, field, value);
        Ok(())
    }

    /// Copies more of the packet, if the field or a checksum that covers it lies there.
    #[cold]
    fn reach(&mut self, field: Field, more: impl Fn(usize, &mut [u8])) -> Result<Offsets, Undone> {
        let is_beyond =
            |headers: &Headers, offsets: &Offsets| headers.is_part() && is_beyond(headers.bytes(), offsets, field);
        let offsets = |headers: &Headers| Offsets::of(headers.bytes()).unwrap_or_default();
        if is_beyond(self, &offsets(self)) {
            self.take_more(more);
        }
        let offsets = offsets(self);
        if is_beyond(self, &offsets) { Err(Undone::TooDeep) } else { Ok(offsets) }
    }

    /// Raises the drop precedence of an assured-forwarding class (RFC 2597) by this number of levels, up to the highest. Other packets
    /// stay as they are.
    pub fn raise_drop_precedence(&mut self, levels: u8) {
        let packet = &mut self.bytes[self.start..self.end];
        let Some(offsets) = Offsets::of(packet) else { return };
        let Some(dscp) = get(packet, &offsets, Field::IpDscp) else { return };
        let (class, precedence) = (dscp >> 3, dscp >> 1 & 3);
        if (1..=4).contains(&class) && precedence > 0 && dscp & 1 == 0 {
            let raised = (precedence + u128::from(levels)).min(3);
            set(packet, &offsets, Field::IpDscp, class << 3 | raised << 1);
        }
    }

    /// Adds a tag with the VID and priority of the current outermost one (Section 7.2.4.3).
    fn push_vlan(&mut self, ethertype: u16) {
        let Some(offsets) = Offsets::of(self.bytes()).filter(|_| self.start >= VLAN_TAG) else { return };
        let packet = &mut self.bytes[self.start - VLAN_TAG..self.end];
        packet.copy_within(VLAN_TAG..16, 0);
        let tci = if offsets.tagged { [packet[18], packet[19]] } else { [0; 2] };
        packet[12..14].copy_from_slice(&ethertype.to_be_bytes());
        packet[14..16].copy_from_slice(&tci);
        self.start -= VLAN_TAG;
    }

    fn pop_vlan(&mut self) {
        if Offsets::of(self.bytes()).is_some_and(|offsets| offsets.tagged) {
            self.bytes[self.start..self.end].copy_within(..MAC_ADDRESSES, VLAN_TAG);
            self.start += VLAN_TAG;
        }
    }

    /// Adds a label behind VLAN tags: a copy of the current outermost one, or one with the TTL of IP (Section 7.2.4.3).
    fn push_mpls(&mut self, ethertype: u16) {
        let Some(offsets) = Offsets::of(self.bytes()).filter(|_| self.start >= MPLS) else { return };
        let (at, before) = (offsets.network, self.bytes());
        let entry = match before.get(at..).and_then(|rest| rest.first_chunk::<MPLS>()) {
            // The bottom of the stack is the label that was there.
            Some([a, b, c, ttl]) if offsets.is_mpls(before) => [*a, *b, c & !1, *ttl],
            _ => [0, 0, 1, ttl::of_ip(before, at).unwrap_or(0)],
        };
        let packet = &mut self.bytes[self.start - MPLS..self.end];
        packet.copy_within(MPLS..at + MPLS, 0);
        packet[at - 2..at].copy_from_slice(&ethertype.to_be_bytes());
        packet[at..at + MPLS].copy_from_slice(&entry);
        add_to_length(packet, &offsets, MPLS as u16);
        self.start -= MPLS;
    }

    fn pop_mpls(&mut self, ethertype: u16) {
        let Some(offsets) = Offsets::of(self.bytes()).filter(|offsets| offsets.is_mpls(self.bytes())) else { return };
        let (at, packet) = (offsets.network, &mut self.bytes[self.start..self.end]);
        packet[at - 2..at].copy_from_slice(&ethertype.to_be_bytes());
        add_to_length(packet, &offsets, (MPLS as u16).wrapping_neg());
        packet.copy_within(..at, MPLS);
        self.start += MPLS;
    }
}

/// Adds to the length in front of a SNAP header, if there is one (IEEE 802.3 §3.2.6).
fn add_to_length(packet: &mut [u8], offsets: &Offsets, more: u16) {
    if offsets.snap
        && let Some(length) = packet[..offsets.network - SNAP_LEN].last_chunk_mut::<2>()
    {
        *length = u16::from_be_bytes(*length).wrapping_add(more).to_be_bytes();
    }
}
