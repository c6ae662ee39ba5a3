//! The matchable fields of a packet, in 72 bytes that are compared and hashed as words.

use crate::field::Field;
use crate::offsets::Offsets;
use packet::ip_protocol::{TCP, UDP};

/// Words in a key.
pub(crate) const WORDS: usize = 9;

/// Bytes of a packet that are enough to extract its key and to rewrite it. Headers beyond, behind very long IPv6
/// extension headers, count as absent.
pub const HEADER_BYTES: usize = 128;

/// The bit in the VLAN field that marks a tagged packet (OFPVID_PRESENT).
pub(crate) const VLAN_PRESENT: u16 = 0x1000;

/// The bit of word 8 that marks a packet with ports: a later fragment has none, and does not match port 0.
pub(crate) const PORTS_PRESENT: u64 = 1 << 8;

/// The fields of a packet, or a mask of them.
///
/// ```text
/// word 0   in_port:32  eth_type:16  vlan_pcp:3  vlan_vid:13 (with the bit that marks a tagged packet)
/// word 1   eth_dst:48  tp_src:16
/// word 2   eth_src:48  tp_dst:16
/// word 3   tunnel_id
/// word 4-5 ip_src      IPv4 in the last 32 bits
/// word 6-7 ip_dst
/// word 8   ip_proto, and the bit that marks a packet with ports
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key(pub(crate) [u64; WORDS]);

impl Key {
    /// Extracts the key of `packet` (its first [`HEADER_BYTES`] are enough), received at port `in_port`, from tunnel
    /// `tunnel_id` or 0. Returns `None` without a whole Ethernet header.
    #[inline]
    pub fn extract(packet: &[u8], in_port: u32, tunnel_id: u64) -> Option<Key> {
        let offsets = Offsets::of(packet)?;
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
        let [destination, source] =
            [0, 6].map(|at| packet[at..].first_chunk().map_or(0, |eight| u64::from_be_bytes(*eight)));
        key.0[1] = destination & !0xffff;
        key.0[2] = source & !0xffff;
        key.0[3] = tunnel_id;
        let at = offsets.network;
        match offsets.ip {
            Some(4) => {
                let addresses = packet[at + 12..].first_chunk().map_or(0, |eight| u64::from_be_bytes(*eight));
                key.0[5] = addresses >> 32;
                key.0[7] = addresses & 0xffff_ffff;
            }
            Some(6) => {
                for (word, bytes) in key.0[4..8].iter_mut().zip(packet[at + 8..at + 40].as_chunks::<8>().0) {
                    *word = u64::from_be_bytes(*bytes);
                }
            }
            _ => return Some(key),
        }
        key.0[8] = u64::from(offsets.protocol);
        let ports = offsets.transport.and_then(|at| packet.get(at..)?.first_chunk::<4>());
        if let (TCP | UDP, Some([s0, s1, d0, d1])) = (offsets.protocol, ports) {
            key.0[1] |= u64::from(u16::from_be_bytes([*s0, *s1]));
            key.0[2] |= u64::from(u16::from_be_bytes([*d0, *d1]));
            key.0[8] |= PORTS_PRESENT;
        }
        Some(key)
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

    /// Reports whether both are equal, without a call to memcmp.
    #[inline]
    pub fn is(&self, other: &Key) -> bool {
        (0..WORDS).fold(0, |difference, word| difference | (self.0[word] ^ other.0[word])) == 0
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
