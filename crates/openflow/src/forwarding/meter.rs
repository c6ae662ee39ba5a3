//! Meters as the data path needs them (Section 5.7): limits of the rates of flows.

use super::counters::Tally;
use super::token_bucket::TokenBucket;

/// A meter.
#[derive(Debug)]
pub struct Meter {
    /// Whether it measures packets instead of bits.
    pub counts_packets: bool,
    /// Its bands, in the order in which the controller listed them.
    pub bands: Box<[Band]>,
    /// Where its packets are counted.
    pub tally: Tally,
}

/// A rate, and the treatment of packets beyond it.
#[derive(Debug)]
pub struct Band {
    /// Packets or kilobits per second.
    pub rate: u32,
    /// The rate as a limit.
    pub bucket: TokenBucket,
    /// The treatment of packets beyond it.
    pub excess: Excess,
    /// Where these packets are counted.
    pub tally: Tally,
}

/// The treatment of a packet beyond a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// It is dropped.
    Drop,
    /// Its DSCP is changed for one whose drop precedence is higher by this number of levels.
    Remark(u8),
}

impl Meter {
    /// Measures a packet of `len` bytes, at a time in nanoseconds. Returns the band that applies to it, if it is beyond a rate: of
    /// several, the one with the highest.
    #[inline]
    pub fn measure(&self, now: u64, len: u64) -> Option<&Band> {
        let units = if self.counts_packets { 1 } else { 8 * len };
        // Each band measures all packets.
        self.bands.iter().filter(|band| !band.bucket.take(now, units)).max_by_key(|band| band.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forwarding::Counters;
    use std::num::NonZeroU64;
    use std::sync::Arc;

    #[test]
    fn the_highest_rate_that_is_exceeded_applies() {
        let counters = Arc::new(Counters::default());
        let tally = || Tally::new(&counters).unwrap();
        let band = |(rate, excess): (u32, Excess)| {
            let bucket = TokenBucket::new(NonZeroU64::new(u64::from(rate)).unwrap(), u64::from(rate));
            Band { rate, bucket, excess, tally: tally() }
        };
        let bands = [(20, Excess::Drop), (10, Excess::Remark(1))].map(band).into();
        let meter = Meter { counts_packets: true, bands, tally: tally() };
        let seen: Vec<_> = (0..30).map(|_| meter.measure(0, 60).map(|band| band.excess)).collect();
        assert!(seen[..10].iter().all(Option::is_none));
        assert!(seen[10..20].iter().all(|excess| *excess == Some(Excess::Remark(1))));
        assert!(seen[20..].iter().all(|excess| *excess == Some(Excess::Drop)));
    }
}
