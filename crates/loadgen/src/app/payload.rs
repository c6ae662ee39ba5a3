//! Bytes after the stamps of packets, and their sum.

/// Bytes of noise that payloads are cut from.
const NOISE: usize = 8192;
/// Bytes of the longest payload.
const LONGEST: usize = 2048;

/// Noise, from which each packet has a part that depends on its number.
pub struct Noise {
    bytes: Box<[u8]>,
    /// The sum of all bytes before each one, modulo 2^16.
    sums: Box<[u16]>,
}

impl Noise {
    /// Creates the noise, always the same.
    pub fn new() -> Noise {
        let mut random = fastrand::Rng::with_seed(1);
        let bytes: Box<[u8]> = (0..NOISE + LONGEST).map(|_| random.u8(..)).collect();
        let mut sum = 0u16;
        let sums = std::iter::once(0).chain(bytes.iter().map(|&byte| {
            sum = sum.wrapping_add(byte.into());
            sum
        }));
        Noise { sums: sums.collect(), bytes }
    }

    /// Fills the payload of packet `number`, and returns its sum.
    #[inline(always)]
    pub fn fill(&self, number: u64, payload: &mut [u8]) -> u16 {
        // Whole cache lines further on for each packet.
        let at = number as usize % (NOISE / 64) * 64;
        payload.copy_from_slice(&self.bytes[at..at + payload.len()]);
        self.sums[at + payload.len()].wrapping_sub(self.sums[at])
    }
}

/// Returns the sum of the bytes, modulo 2^16.
#[inline(always)]
pub fn sum(payload: &[u8]) -> u16 {
    payload.iter().fold(0u16, |sum, &byte| sum.wrapping_add(byte.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_covers_the_written_bytes() {
        let noise = Noise::new();
        let mut seen = std::collections::HashSet::new();
        for number in [0, 1, 127, 128, u64::MAX] {
            for len in [0, 1, 2, 700, 1454] {
                let mut payload = vec![0; len];
                assert_eq!(noise.fill(number, &mut payload), sum(&payload), "{number}, {len}");
                if len == 700 {
                    seen.insert(payload);
                }
            }
        }
        assert_eq!(seen.len(), 3, "numbers 0 and 128 have the same bytes, as have 127 and the last");
    }

    #[test]
    fn every_changed_byte_changes_the_sum() {
        let mut payload = vec![0; 100];
        let sent = Noise::new().fill(5, &mut payload);
        for at in 0..100 {
            payload[at] ^= 0x10;
            assert_ne!(sum(&payload), sent);
            payload[at] ^= 0x10;
        }
    }
}
