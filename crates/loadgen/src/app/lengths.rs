//! Lengths of the packets of a flow.

use super::Size;
use crate::endpoint::MAX_BURST;

/// The simple mix of the Internet: spread out, so that any part of it has about the mean length.
const IMIX: [u16; 12] = [64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64];

/// Lengths in the order of packets' numbers.
pub struct Lengths {
    /// A period, followed by as many lengths as are sent at once.
    all: Vec<u16>,
    period: u64,
}

impl Lengths {
    /// Creates the lengths of packets of this size.
    pub fn of(size: Size) -> Lengths {
        let period = match size {
            Size::Bytes(bytes) => vec![bytes],
            Size::Imix => IMIX.to_vec(),
        };
        let all = period.iter().copied().cycle().take(period.len() + MAX_BURST).collect();
        Lengths { all, period: period.len() as u64 }
    }

    /// Returns the lengths of `count` packets from packet `number` on.
    #[inline(always)]
    pub fn from(&self, number: u64, count: usize) -> &[u16] {
        &self.all[(number % self.period) as usize..][..count]
    }

    /// Returns the greatest length.
    pub fn longest(&self) -> u16 {
        *self.all.iter().max().expect("there is one at least")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_has_its_shares() {
        let mix = Lengths::of(Size::Imix);
        let twelve = mix.from(0, 12);
        let count = |length| twelve.iter().filter(|&&one| one == length).count();
        assert_eq!([64, 594, 1518].map(count), [7, 4, 1]);
        assert_eq!(mix.from(12 * 1000 + 5, 7), &twelve[5..]);
        assert_eq!(mix.from(11, MAX_BURST)[1..13], *twelve);
        assert_eq!(mix.longest(), 1518);
    }

    #[test]
    fn frames_of_one_size_have_equal_lengths() {
        assert_eq!(Lengths::of(Size::Bytes(700)).from(u64::MAX, 3), [700; 3]);
    }
}
