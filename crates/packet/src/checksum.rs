//! The Internet checksum (RFC 1071): computed over parts of any length ([`Sum`]), or updated after a change of the
//! bytes that it covers ([`Change`], RFC 1624).

/// Length of a block of [`Sum::add_blocks`].
pub(crate) const BLOCK: usize = 64;

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
        let mut sum = words(chunks);
        let (pairs, last) = rest.as_chunks::<2>();
        sum += pairs.iter().map(|pair| u64::from(u16::from_ne_bytes(*pair))).sum::<u64>();
        if let [byte] = last {
            sum += u64::from(u16::from_ne_bytes([*byte, 0]));
        }
        self.add_native(sum);
        self.odd ^= bytes.len() & 1 == 1;
    }

    /// Adds the next bytes on the wire, in blocks.
    #[inline]
    pub(crate) fn add_blocks(&mut self, blocks: impl Iterator<Item = [u8; BLOCK]>) {
        self.add_native(blocks.map(|block| words(block.as_chunks().0)).sum());
    }

    /// Adds a sum of words in the order of this machine, which is the same sum with its bytes swapped (RFC 1071, Section 2 (B)).
    #[inline(always)]
    fn add_native(&mut self, sum: u64) {
        let folded = u16::from_be_bytes(fold(sum).to_ne_bytes());
        // In a part that begins at an odd offset, the bytes of each word are swapped.
        self.total += u64::from(if self.odd { folded.swap_bytes() } else { folded });
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

    /// Returns the checksum: the complement of the folded sum. It is zero over bytes that include their own, correct one.
    #[inline(always)]
    pub fn finish(self) -> u16 {
        !fold(self.total)
    }
}

/// Returns the sum of words in the order of this machine.
#[inline(always)]
fn words(chunks: &[[u8; 4]]) -> u64 {
    chunks.iter().map(|chunk| u64::from(u32::from_ne_bytes(*chunk))).sum()
}

/// Returns the checksum over `bytes`.
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    let mut sum = Sum::new();
    sum.add(bytes);
    sum.finish()
}

/// The change of a checksum when bytes that it covers change (RFC 1624, equation 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change(u64);

impl Change {
    /// Returns the change when `old` becomes `new`, of the same length, at an even offset of the covered bytes.
    #[inline]
    pub fn between(old: &[u8], new: &[u8]) -> Change {
        let change =
            |old: [u8; 2], new: [u8; 2]| u64::from(!u16::from_be_bytes(old)) + u64::from(u16::from_be_bytes(new));
        let ((old, old_last), (new, new_last)) = (old.as_chunks::<2>(), new.as_chunks::<2>());
        let mut sum = old.iter().zip(new).map(|(old, new)| change(*old, *new)).sum();
        if let ([old], [new]) = (old_last, new_last) {
            sum += change([*old, 0], [*new, 0]);
        }
        Change(sum)
    }

    /// Returns the checksum after the change.
    #[inline]
    pub fn apply(self, checksum: u16) -> u16 {
        !fold(u64::from(!checksum) + self.0)
    }
}

/// Returns the checksum as UDP sends it: a zero would mean that there is none, so it is sent as all ones, which is the
/// same number (RFC 768).
#[inline(always)]
pub const fn never_zero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
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

    fn whole(bytes: &[u8]) -> u16 {
        let mut sum = Sum::new();
        sum.add(bytes);
        sum.finish()
    }

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(whole(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(whole(&[0xff; 99]), !0xff00);
        assert_eq!(whole(&[]), 0xffff);
    }

    #[test]
    fn the_example_of_rfc_1624() {
        let change = Change::between(&0x5555u16.to_be_bytes(), &0x3285u16.to_be_bytes());
        assert_eq!(change.apply(0xdd2f), 0x0000);
    }

    #[test]
    fn a_udp_checksum_is_never_zero() {
        assert_eq!([0, 1, 0xffff].map(never_zero), [0xffff, 1, 0xffff]);
    }

    proptest! {
        #[test]
        fn parts_sum_up_to_the_whole(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..70), 0..9)) {
            let mut sum = Sum::new();
            parts.iter().for_each(|part| sum.add(part));
            prop_assert_eq!(sum.finish(), naive(&parts.concat()));
        }

        #[test]
        fn sums_and_words_add_up(front: Vec<u16>, rest: Vec<u8>) {
            let (mut sum, mut next) = (Sum::new(), Sum::new());
            front.iter().for_each(|word| sum.add_word(*word));
            next.add(&rest);
            sum.add_sum(next);
            let front = front.iter().flat_map(|word| word.to_be_bytes());
            prop_assert_eq!(sum.finish(), naive(&front.chain(rest).collect::<Vec<_>>()));
        }

        #[test]
        fn updating_is_as_good_as_computing(
            mut bytes in prop::collection::vec(any::<u8>(), 1..70),
            new in prop::collection::vec(any::<u8>(), 1..40),
            at in 0usize..30,
        ) {
            // A byte that is not zero and stays: over zeros alone, the checksum has two forms.
            bytes.insert(0, 1);
            let at = (2 + 2 * at).min(bytes.len() & !1);
            let len = new.len().min(bytes.len() - at);
            let before = naive(&bytes);
            let change = Change::between(&bytes[at..at + len], &new[..len]);
            bytes[at..at + len].copy_from_slice(&new[..len]);
            prop_assert_eq!(change.apply(before), naive(&bytes));
        }
    }
}
