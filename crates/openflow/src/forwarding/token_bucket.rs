//! Token buckets: limits of rates, which several threads share without a lock.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ticks of a bucket's clock in a nanosecond, as a power of two: 64. They last for nine years.
const TICKS: u32 = 6;

/// Fractional bits of the number of ticks that a unit takes.
const FRACTION: u32 = 20;

/// A bucket that fills with a fixed rate, and from which units are taken: bits, or packets.
///
/// It is kept as the time at which it will be full again, as in the virtual scheduling algorithm of ITU-T I.371. That is a single
/// number, which threads change by one atomic exchange.
#[derive(Debug)]
pub struct TokenBucket {
    /// Ticks that it takes to fill in a unit, with [`FRACTION`] fractional bits.
    per_unit: u64,
    /// Ticks that it takes to fill the whole bucket.
    depth: u64,
    /// The tick at which it is full again.
    full: AtomicU64,
}

impl TokenBucket {
    /// Returns a full bucket that holds `depth` units and is filled with `rate` of them per second.
    pub fn new(rate: NonZeroU64, depth: u64) -> TokenBucket {
        let second = 1_000_000_000u64 << TICKS;
        let mut bucket = TokenBucket { per_unit: (second << FRACTION) / rate, depth: 0, full: AtomicU64::new(0) };
        bucket.depth = bucket.ticks(depth);
        bucket
    }

    /// Returns the number of ticks that it takes to fill in this many units.
    #[inline(always)]
    fn ticks(&self, units: u64) -> u64 {
        u64::try_from((u128::from(units) * u128::from(self.per_unit)) >> FRACTION).unwrap_or(u64::MAX >> 1)
    }

    /// Takes this many units at a time in nanoseconds. Returns false, and takes none, if there are too few. A full bucket has enough for
    /// anything: then a packet that is larger than the bucket passes, and the next one waits for longer.
    #[inline(always)]
    pub fn take(&self, now: u64, units: u64) -> bool {
        let (now, ticks) = (now << TICKS, self.ticks(units));
        let take = |full: u64| {
            let next = full.max(now).saturating_add(ticks);
            (full <= now || next - now <= self.depth).then_some(next)
        };
        self.full.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn bucket(rate: u64, depth: u64) -> TokenBucket {
        TokenBucket::new(NonZeroU64::new(rate).unwrap(), depth)
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let bucket = bucket(1000, 10);
        let passed = |from: u64, until: u64| (from..until).filter(|ms| bucket.take(ms * 1_000_000, 1)).count();
        assert_eq!((0..20).filter(|_| bucket.take(0, 1)).count(), 10);
        assert_eq!(passed(1, 101), 100);
        // At most a whole bucket is filled in.
        assert_eq!((0..20).filter(|_| bucket.take(10 * SECOND, 1)).count(), 10);
        assert!(!bucket.take(10 * SECOND + 999_000, 1) && bucket.take(10 * SECOND + 1_000_100, 1));
    }

    #[test]
    fn a_packet_larger_than_the_bucket_passes_when_it_is_full() {
        let bucket = bucket(1000, 10);
        assert!(bucket.take(0, 500));
        // Until there is room for one more in it.
        assert!(!bucket.take(490_900_000, 1));
        assert!(bucket.take(491_100_000, 1));
    }

    #[test]
    fn threads_together_take_no_more_than_there_is() {
        let bucket = bucket(1, 10_000);
        let taken: usize = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(|| (0..5000).filter(|_| bucket.take(5, 1)).count()));
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken, 10_000);
    }

    proptest! {
        #[test]
        fn no_rate_is_exceeded(
            rate in 1u64..5_000_000_000_000,
            depth in 0u64..1 << 45,
            packets in prop::collection::vec((0u64..SECOND, 1u64..600_000), 1..200),
        ) {
            let bucket = bucket(rate, depth);
            let (mut now, mut taken, mut last) = (0, 0u128, 0);
            for (pause, units) in packets {
                now += pause;
                if bucket.take(now, units) {
                    taken += u128::from(units);
                    last = u128::from(units);
                }
            }
            let filled = u128::from(rate) * u128::from(now) / u128::from(SECOND);
            // Ticks are rounded: that is less than a thousandth, up to 5 Tb/s.
            prop_assert!(taken <= (u128::from(depth) + filled) * 1001 / 1000 + last + 1, "{taken} of {depth} + {filled}");
        }
    }
}
