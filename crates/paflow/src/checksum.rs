//! The Internet checksum (RFC 1071), computed over parts of any length.

/// The sum of the parts so far, in wire order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    total: u64,
    odd: bool,
}

impl Sum {
    /// Returns an empty sum.
    pub const fn new() -> Sum {
        Sum { total: 0, odd: false }
    }

    /// Adds the next bytes on the wire.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks::<4>();
        // At most 2^16 chunks of 32 bits for one packet: 64 bits don't overflow.
        let mut sum: u64 = chunks.iter().map(|chunk| u64::from(u32::from_be_bytes(*chunk))).sum();
        let (words, last) = rest.as_chunks::<2>();
        sum += words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum::<u64>();
        if let [byte] = last {
            sum += u64::from(*byte) << 8;
        }
        let folded = fold(sum);
        // In a part that begins at an odd offset, the bytes of each word are swapped.
        self.total += u64::from(if self.odd { folded.swap_bytes() } else { folded });
        self.odd ^= bytes.len() & 1 == 1;
    }

    /// Adds one 16-bit word as if at an even offset.
    #[inline(always)]
    pub fn add_word(&mut self, word: u16) {
        self.total += u64::from(word);
    }

    /// Adds the sum of the next parts. The length summed so far must be even.
    #[inline(always)]
    pub fn add_sum(&mut self, other: Sum) {
        self.total += other.total;
        self.odd ^= other.odd;
    }

    /// Returns the checksum: the complement of the folded sum.
    #[inline(always)]
    pub fn finish(self) -> u16 {
        !fold(self.total)
    }
}

#[inline(always)]
fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + sum) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071, Section 4.1, taken literally.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum >> 16) + (sum & 0xffff);
        }
        !(sum as u16)
    }

    proptest! {
        #[test]
        fn parts_sum_up_to_the_whole(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..70), 0..9)) {
            let mut sum = Sum::new();
            parts.iter().for_each(|part| sum.add(part));
            prop_assert_eq!(sum.finish(), naive(&parts.concat()));
        }
    }
}
