//! The matchable fields of a packet, in 104 bytes that are compared and hashed as words.

use super::offsets::{NO_ETHERTYPE, Offsets};
use crate::wire::Field;
use packet::ethertype;
use packet::ip_protocol::{ICMP, ICMPV6, SCTP, TCP, UDP};
use std::hash::{Hash, Hasher};

/// Words in a key.
pub(super) const WORDS: usize = 13;

/// Bytes of a packet that are enough to extract its key and to rewrite it. Headers beyond, behind very long IPv6
/// extension headers, count as absent.
pub const HEADER_BYTES: usize = 128;

/// The bit in the VLAN field that marks a tagged packet (OFPVID_PRESENT).
pub(crate) const VLAN_PRESENT: u16 = 0x1000;

/// The bit of word 8 that marks a packet with a transport header: a later fragment has none, and does not match port 0.
pub(crate) const TRANSPORT_PRESENT: u64 = 1 << 48;

/// The bit of word 8 that marks a message about a neighbour: in all other keys the words from 10 on are zero.
pub(crate) const NEIGHBOUR: u64 = 1 << 49;

/// Number of words of any other key.
pub(super) const COMMON: usize = 10;

/// Bits of the table's number in word 8.
const TABLE_SHIFT: u32 = 56;

/// The fields of a packet, or a mask of them.
///
/// ```text
/// word 0     in_port:32  eth_type:16  vlan_pcp:3  vlan_vid:13 (with the bit that marks a tagged packet)
/// word 1     eth_dst:48  tp_src:16 or ICMP type
/// word 2     eth_src:48  tp_dst:16 or ICMP code
/// word 3     tunnel_id
/// word 4-5   ip_src      IPv4 and ARP in the last 32 bits; word 4 of others: arp_sha, or an MPLS label without its TTL
/// word 6-7   ip_dst      IPv4 and ARP in the last 32 bits; word 6 of others: arp_tha
/// word 8     table:8  bits that mark a neighbour's and a transport header  ipv6_flabel:20  traffic class:8  ip_proto or arp_op:16
/// word 9     metadata
/// word 10-11 nd_target
/// word 12    nd_sll or nd_tll
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key(pub(crate) [u64; WORDS]);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let words = if self.0[8] & NEIGHBOUR == 0 { &self.0[..COMMON] } else { &self.0[..] };
        words.iter().for_each(|word| state.write_u64(*word));
    }
}

impl Key {
    /// Extracts the key of `packet` (its first [`HEADER_BYTES`] are enough), received at port `in_port`, from tunnel
    /// `tunnel_id` or 0. Returns `None` without a whole Ethernet header.
    #[inline(always)]
    pub fn extract(packet: &[u8], in_port: u32, tunnel_id: u64) -> Option<Key> {
        let offsets = Offsets::of_most(packet)?;
        if ethertype::is_vlan(offsets.ethertype) || offsets.ethertype == NO_ETHERTYPE {
            return Key::extract_slowly(packet, in_port, tunnel_id);
        }
        Some(Key::of(packet, &offsets, in_port, tunnel_id))
    }

    /// Does the same for a packet with several VLAN tags, or with a length instead of a type.
    #[cold]
    fn extract_slowly(packet: &[u8], in_port: u32, tunnel_id: u64) -> Option<Key> {
        Some(Key::of(packet, &Offsets::of(packet)?, in_port, tunnel_id))
    }

    #[inline(always)]
    fn of(packet: &[u8], offsets: &Offsets, in_port: u32, tunnel_id: u64) -> Key {
        let tci = if offsets.tagged {
            let tci = u16::from_be_bytes([packet[14], packet[15]]);
            // The drop eligibility bit makes room for the bit that marks a tagged packet.
            tci & 0xefff | VLAN_PRESENT
        } else {
            0
        };
        let mut key = Key([0; WORDS]);
        key.0[0] = u64::from(in_port) << 32 | u64::from(offsets.ethertype) << 16 | u64::from(tci);
        // Eight bytes are read at once: the last two are not part of the address.
        let [destination, source] = [0, 6].map(|at| word(packet, at));
        key.0[1] = destination & !0xffff;
        key.0[2] = source & !0xffff;
        key.0[3] = tunnel_id;
        let at = offsets.network;
        match offsets.ip {
            Some(4) => {
                let addresses = word(packet, at + 12);
                key.0[5] = addresses >> 32;
                key.0[7] = addresses & 0xffff_ffff;
                key.0[8] = u64::from(packet[at + 1]) << 16;
            }
            Some(6) => {
                for (word, bytes) in key.0[4..8].iter_mut().zip(packet[at + 8..at + 40].as_chunks::<8>().0) {
                    *word = u64::from_be_bytes(*bytes);
                }
                let first = word(packet, at) >> 32;
                key.0[8] = (first >> 20 & 0xff) << 16 | (first & 0xf_ffff) << 24;
            }
            _ => {
                if offsets.ethertype == ethertype::ARP || ethertype::is_mpls(offsets.ethertype) {
                    key.without_ip(packet, offsets);
                }
                return key;
            }
        }
        key.0[8] |= u64::from(offsets.protocol);
        let start = offsets.transport.and_then(|at| packet.get(at..)?.first_chunk::<4>());
        match (offsets.protocol, start) {
            (TCP | UDP | SCTP, Some([s0, s1, d0, d1])) => {
                key.0[1] |= u64::from(u16::from_be_bytes([*s0, *s1]));
                key.0[2] |= u64::from(u16::from_be_bytes([*d0, *d1]));
                key.0[8] |= TRANSPORT_PRESENT;
            }
            (ICMP | ICMPV6, Some([kind, code, ..])) => {
                key.0[1] |= u64::from(*kind);
                key.0[2] |= u64::from(*code);
                key.0[8] |= TRANSPORT_PRESENT;
                if offsets.protocol == ICMPV6 && offsets.ip == Some(6) {
                    key.neighbour(packet, offsets, *kind);
                }
            }
            _ => {}
        }
        key
    }

    /// Adds the fields of ARP, and of MPLS.
    #[cold]
    fn without_ip(&mut self, packet: &[u8], offsets: &Offsets) {
        let at = offsets.network;
        if offsets.is_arp(packet) {
            self.0[4] = word(packet, at + 8) >> 16;
            self.0[5] = word(packet, at + 14) >> 32;
            self.0[6] = word(packet, at + 18) >> 16;
            // The last four bytes of the message.
            self.0[7] = word(packet, at + 20) & 0xffff_ffff;
            self.0[8] = u64::from(u16::from_be_bytes([packet[at + 6], packet[at + 7]]));
        } else if offsets.is_mpls(packet) {
            let entry = packet[at..].first_chunk().map_or(0, |four| u32::from_be_bytes(*four));
            self.0[4] = u64::from(entry & !0xff);
        }
    }

    /// Adds the addresses in a message about neighbours (RFC 4861).
    #[cold]
    fn neighbour(&mut self, packet: &[u8], offsets: &Offsets, kind: u8) {
        let Some(target) = offsets.neighbour(packet, kind) else { return };
        self.0[8] |= NEIGHBOUR;
        (self.0[10], self.0[11]) = (word(packet, target), word(packet, target + 8));
        if let Some(address) = offsets.neighbour_option(packet, kind) {
            // Two bytes before it are the option's type and length.
            self.0[12] = word(packet, address - 2) & 0xffff_ffff_ffff;
        }
    }

    /// Returns the key for the lookup in a table, with this metadata.
    #[inline(always)]
    pub fn at(mut self, table: u8, metadata: u64) -> Key {
        self.0[8] = self.0[8] & !(0xff << TABLE_SHIFT) | u64::from(table) << TABLE_SHIFT;
        self.0[9] = metadata;
        self
    }

    /// Returns the metadata.
    #[inline(always)]
    pub fn metadata(&self) -> u64 {
        self.0[9]
    }

    /// Returns the value of a field.
    pub fn get(&self, field: Field) -> u128 {
        match field.place() {
            (word, _, 128) => u128::from(self.0[word]) << 64 | u128::from(self.0[word + 1]),
            (word, shift, _) => u128::from(self.0[word] >> shift) & field.all(),
        }
    }

    /// Sets the value of a field. Ignores bits beyond its width.
    pub fn set(&mut self, field: Field, value: u128) {
        let value = value & field.all();
        match field.place() {
            (word, _, 128) => (self.0[word], self.0[word + 1]) = ((value >> 64) as u64, value as u64),
            (word, shift, _) => {
                self.0[word] = self.0[word] & !((field.all() as u64) << shift) | (value as u64) << shift;
            }
        }
    }

    /// Returns a hash without a secret: it is always the same for the same key.
    pub fn digest(&self) -> u64 {
        self.0.iter().fold(0, |digest: u64, word| {
            let product = u128::from(digest ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xe703_7ed1_a0b4_28db;
            (product >> 64) as u64 ^ product as u64
        })
    }

    /// Returns the bits that are set in both.
    #[inline]
    pub fn and(&self, mask: &Key) -> Key {
        Key(std::array::from_fn(|word| self.0[word] & mask.0[word]))
    }

    /// Returns the bits that are set in either.
    #[inline]
    pub fn or(&self, other: &Key) -> Key {
        Key(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }
}

/// Returns eight bytes of a packet, or zero behind its end.
#[inline(always)]
fn word(packet: &[u8], at: usize) -> u64 {
    packet.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |eight| u64::from_be_bytes(*eight))
}
