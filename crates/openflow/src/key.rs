//! The matchable fields of a packet, in 72 bytes that are compared and hashed as words.

use crate::fields::Field;

/// Words in a key.
pub(crate) const WORDS: usize = 9;

/// Bytes of a packet that are enough to extract its key and to rewrite it. Headers beyond, behind very long IPv6
/// extension headers, count as absent.
pub const HEADER_BYTES: usize = 128;

/// The bit in the VLAN field that marks a tagged packet (OFPVID_PRESENT).
pub(crate) const VLAN_PRESENT: u16 = 0x1000;

/// The EtherType that stands for IEEE 802.3 frames, which have a length instead; no valid length has this value.
const NO_ETHERTYPE: u16 = 0x05ff;

/// The fields of a packet, or a mask of them.
///
/// ```text
/// word 0   in_port:32  eth_type:16  vlan_pcp:3  vlan_vid:13 (with the bit that marks a tagged packet)
/// word 1   eth_dst:48  tp_src:16
/// word 2   eth_src:48  tp_dst:16
/// word 3   tunnel_id
/// word 4-5 ip_src      IPv4 in the last 32 bits
/// word 6-7 ip_dst
/// word 8   ip_proto
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key(pub(crate) [u64; WORDS]);

/// Offsets of the headers in a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Layout {
    pub tagged: bool,
    pub ethertype: u16,
    /// The network header.
    pub network: usize,
    pub protocol: u8,
    /// The transport header; `None` in later fragments.
    pub transport: Option<usize>,
    /// IP version, if the network header is complete.
    pub ip: Option<u8>,
}

impl Layout {
    /// Finds the headers of `packet`, behind at most one VLAN tag.
    #[inline]
    pub fn of(packet: &[u8]) -> Option<Layout> {
        let word = |at: usize| Some(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?));
        let mut layout = Layout { ethertype: word(12)?, network: 14, ..Layout::default() };
        if matches!(layout.ethertype, 0x8100 | 0x88a8) {
            layout = Layout { tagged: true, ethertype: word(16)?, network: 18, ..layout };
        }
        if layout.ethertype < 0x600 {
            layout.ethertype = NO_ETHERTYPE;
        }
        let at = layout.network;
        match layout.ethertype {
            0x0800 => {
                let Some(header) = packet.get(at..).and_then(|rest| rest.first_chunk::<20>()) else {
                    return Some(layout);
                };
                let len = usize::from(header[0] & 15) * 4;
                if header[0] >> 4 != 4 || len < 20 {
                    return Some(layout);
                }
                layout.ip = Some(4);
                layout.protocol = header[9];
                let first = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
                layout.transport = first.then_some(at + len);
            }
            0x86dd => layout.ipv6(packet),
            _ => {}
        }
        Some(layout)
    }

    /// Skips extension headers (RFC 8200, Section 4), at most as many as a sane packet has.
    fn ipv6(&mut self, packet: &[u8]) {
        let at = self.network;
        let Some(header) = packet.get(at..).and_then(|rest| rest.first_chunk::<40>()) else { return };
        if header[0] >> 4 != 6 {
            return;
        }
        self.ip = Some(6);
        self.protocol = header[6];
        let mut at = at + 40;
        for _ in 0..8 {
            let len = match self.protocol {
                0 | 43 | 60 => |len: u8| 8 + usize::from(len) * 8,
                51 => |len: u8| 8 + usize::from(len) * 4,
                44 => |_| 8,
                _ => {
                    self.transport = Some(at);
                    return;
                }
            };
            let Some([next, extent, offset @ ..]) = packet.get(at..).and_then(|rest| rest.first_chunk::<4>()) else {
                return;
            };
            let later = self.protocol == 44 && u16::from_be_bytes(*offset) & 0xfff8 != 0;
            self.protocol = *next;
            at += len(*extent);
            if later {
                return;
            }
        }
    }
}

impl Key {
    /// Extracts the key of `packet` (its first [`HEADER_BYTES`] are enough), received at port `in_port`, from tunnel
    /// `tunnel_id` or 0. Returns `None` without a whole Ethernet header.
    #[inline]
    pub fn extract(packet: &[u8], in_port: u32, tunnel_id: u64) -> Option<Key> {
        let layout = Layout::of(packet)?;
        let tci = if layout.tagged {
            let tci = u16::from_be_bytes([packet[14], packet[15]]);
            // The drop eligibility bit makes room for the bit that marks a tagged packet.
            tci & 0xefff | VLAN_PRESENT
        } else {
            0
        };
        let mut key = Key([0; WORDS]);
        key.0[0] = u64::from(in_port) << 32 | u64::from(layout.ethertype) << 16 | u64::from(tci);
        // Eight bytes are read at once: the last two are not part of the address.
        let [destination, source] =
            [0, 6].map(|at| packet[at..].first_chunk().map_or(0, |eight| u64::from_be_bytes(*eight)));
        key.0[1] = destination & !0xffff;
        key.0[2] = source & !0xffff;
        key.0[3] = tunnel_id;
        let at = layout.network;
        match layout.ip {
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
        key.0[8] = u64::from(layout.protocol);
        let ports = layout.transport.and_then(|at| packet.get(at..)?.first_chunk::<4>());
        if let (6 | 17, Some([s0, s1, d0, d1])) = (layout.protocol, ports) {
            key.0[1] |= u64::from(u16::from_be_bytes([*s0, *s1]));
            key.0[2] |= u64::from(u16::from_be_bytes([*d0, *d1]));
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
