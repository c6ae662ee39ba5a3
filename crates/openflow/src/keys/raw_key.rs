//! Keys of common packets: the bytes of their headers, without a look at single fields.

use super::cache::{CacheKey, mix};
use packet::ip_protocol::{SCTP, TCP, UDP};
use packet::{ethertype, header_len};

/// Bytes from the beginning of a packet on, which have all fields of a common one.
pub const RAW_BYTES: usize = 64;

const WORDS: usize = RAW_BYTES / 8;

/// The bytes of a packet that its [`Key`](crate::Key) is made of, and its port: packets with equal ones have equal keys. Only common
/// packets have one: TCP, UDP or SCTP over IPv4 or IPv6, with at most one VLAN tag, and without options, extension headers or a
/// fragment's offset. It takes a third of the instructions that a key takes. The default is the key of no packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawKey {
    words: [u64; WORDS],
    in_port: u32,
}

/// Place of the network header without and with a tag, as an index.
const NETWORK: [usize; 2] = [header_len::ETHERNET, header_len::ETHERNET + header_len::VLAN_TAG];

/// Bytes of ports.
const PORTS: usize = 4;

/// The bits that keys are made of, by version of IP (4, 6) and tag.
static MASKS: [[[u64; WORDS]; 2]; 2] =
    [[mask(4, NETWORK[0]), mask(4, NETWORK[1])], [mask(6, NETWORK[0]), mask(6, NETWORK[1])]];

/// Returns a mask of all bytes up to the ports, except lengths, identifiers, fragmentation, times to live and checksums.
const fn mask(version: u8, network: usize) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    let end = network + PORTS + if version == 6 { header_len::IPV6 } else { header_len::IPV4 };
    let mut at = 0;
    while at < end {
        let is_left_out = match version {
            4 => at >= network + 2 && at < network + 9 || at == network + 10 || at == network + 11,
            _ => at == network + 4 || at == network + 5 || at == network + 7,
        };
        if !is_left_out {
            let mut bytes = [0; 8];
            bytes[at % 8] = 0xff;
            words[at / 8] |= u64::from_ne_bytes(bytes);
        }
        at += 1;
    }
    words
}

impl RawKey {
    /// Returns the key of a packet of `len` bytes that begins with `head` and came in at port `in_port`, but from no tunnel; `None` if it
    /// is not common. Behind a shorter packet, `head` may have any bytes.
    #[inline(always)]
    pub fn of(head: &[u8; RAW_BYTES], len: usize, in_port: u32) -> Option<RawKey> {
        let kind = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let tagged = ethertype::is_vlan(kind(12));
        let at = NETWORK[usize::from(tagged)];
        let (protocol, end, masks) = match kind(at - 2) {
            // Five words of header, and no offset of a fragment.
            ethertype::IPV4 if head[at] == 0x45 && kind(at + 6) & 0x1fff == 0 => {
                (head[at + 9], at + header_len::IPV4, &MASKS[0])
            }
            ethertype::IPV6 if head[at] >> 4 == 6 => (head[at + 6], at + header_len::IPV6, &MASKS[1]),
            _ => return None,
        };
        if !matches!(protocol, TCP | UDP | SCTP) || len < end + PORTS {
            return None;
        }
        let mask = &masks[usize::from(tagged)];
        let words = head.as_chunks::<8>().0;
        Some(RawKey { words: std::array::from_fn(|word| u64::from_ne_bytes(words[word]) & mask[word]), in_port })
    }
}

impl CacheKey for RawKey {
    #[inline(always)]
    fn hash(&self, seed: u64) -> u64 {
        let [w0, w1, w2, w3, w4, w5, w6, w7] = self.words;
        let mixed = mix(0, w0 ^ seed, w1) ^ mix(1, w2 ^ seed, w3) ^ mix(2, w4 ^ seed, w5) ^ mix(3, w6 ^ seed, w7);
        mix(4, mixed, seed ^ u64::from(self.in_port))
    }

    #[inline(always)]
    fn is(&self, other: &RawKey) -> bool {
        let differ = |difference, word: usize| difference | (self.words[word] ^ other.words[word]);
        (0..WORDS).fold(u64::from(self.in_port ^ other.in_port), differ) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Key;
    use proptest::prelude::*;

    /// Builds a packet that is common, or nearly so.
    fn packet() -> impl Strategy<Value = Vec<u8>> {
        let mostly = |usual: u8| prop_oneof![9 => Just(usual), 1 => any::<u8>()];
        let ip = prop_oneof![Just(4u8), Just(6)];
        let tag = prop_oneof![Just(vec![]), Just(vec![0x81, 0, 0, 7]), Just(vec![0x88, 0xa8, 0x10, 7])];
        let protocol = prop_oneof![Just(6u8), Just(17), Just(132), Just(1), any::<u8>()];
        (ip, tag, protocol, mostly(0x45), mostly(0), prop::collection::vec(0u8..3, 60), 20usize..90).prop_map(
            |(ip, tag, protocol, first, offset, filling, len)| {
                let mut header = filling.clone();
                let kind = if ip == 4 {
                    (header[0], header[6], header[9]) = (first, offset, protocol);
                    [8, 0]
                } else {
                    (header[0], header[6]) = (0x60 | first & 15, protocol);
                    [0x86, 0xdd]
                };
                let mut packet = [&filling[..12], &tag, &kind, &header, &filling[..30]].concat();
                packet.truncate(len);
                packet
            },
        )
    }

    fn raw(packet: &[u8], behind: u8) -> Option<RawKey> {
        let mut head = [behind; RAW_BYTES];
        let len = packet.len().min(RAW_BYTES);
        head[..len].copy_from_slice(&packet[..len]);
        RawKey::of(&head, packet.len(), 1)
    }

    proptest! {
        /// Packets with equal raw keys have equal keys, however one was changed into the other.
        #[test]
        fn equal_ones_have_equal_keys(
            packet in packet(),
            changes in prop::collection::vec((0usize..90, any::<u8>()), 0..3),
        ) {
            let mut other = packet.clone();
            changes.iter().for_each(|(at, byte)| if let Some(at) = other.get_mut(*at) { *at = *byte });
            if let (Some(one), Some(two)) = (raw(&packet, 0xaa), raw(&other, 0x55)) {
                let [one_key, two_key] = [&packet, &other].map(|packet| Key::extract(packet, 1, 0).unwrap());
                prop_assert_eq!(one.is(&two), one_key == two_key);
                prop_assert!(!one.is(&two) || one.hash(7) == two.hash(7));
                prop_assert!(!one.is(&RawKey::default()));
            }
        }
    }

    #[test]
    fn common_packets_have_one() {
        let ipv4 =
            [&[2; 12][..], &[8, 0, 0x45, 0, 0, 50, 1, 1, 0x40, 0, 64, 17, 3, 3], &[10; 8], &[4, 1, 0, 53], &[0; 20]]
                .concat();
        assert!(raw(&ipv4, 0).is_some());
        let changed = |at: usize, byte: u8| {
            let mut other = ipv4.clone();
            other[at] = byte;
            raw(&other, 9)
        };
        let same = |at, byte| changed(at, byte).map(|other| other.is(&raw(&ipv4, 0).unwrap()));
        // The length, the identifier, "don't fragment", the time to live and the checksum.
        assert!([17, 19, 20, 22, 24].into_iter().all(|at| same(at, 0) == Some(true)));
        assert!([0, 6, 15, 26, 33, 34, 37].into_iter().all(|at| same(at, 77) == Some(false)));
        // Options, a later fragment, another protocol, and another type.
        assert!(changed(14, 0x46).is_none() && changed(21, 1).is_none());
        assert!(changed(23, 1).is_none() && changed(13, 6).is_none());
        assert!(raw(&ipv4[..38], 0).is_some() && raw(&ipv4[..37], 0).is_none());
        let other_port = RawKey::of(ipv4.first_chunk().unwrap_or(&[0; 64]), 38, 2);
        assert!(other_port.is_none_or(|other| !other.is(&raw(&ipv4, 0).unwrap())));
    }
}
