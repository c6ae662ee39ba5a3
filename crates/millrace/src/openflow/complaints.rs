//! Log lines about controllers: a hostile one causes a few, and then one in a second.

use openflow::TokenBucket;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Lines at once.
const AT_ONCE: u64 = 10;

/// Lines so far, of all controllers.
pub(super) struct Complaints {
    started: Instant,
    bucket: TokenBucket,
    unsaid: AtomicU64,
}

impl Complaints {
    pub(super) fn new() -> Complaints {
        let bucket = TokenBucket::new(NonZeroU64::MIN, AT_ONCE);
        Complaints { started: Instant::now(), bucket, unsaid: AtomicU64::new(0) }
    }

    /// Returns the number of lines that were left out since the last one; `None` if this one is to be left out, too.
    pub(super) fn next(&self) -> Option<u64> {
        if self.bucket.take(self.started.elapsed().as_nanos() as u64, 1) {
            return Some(self.unsaid.swap(0, Ordering::Relaxed));
        }
        self.unsaid.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_left_out_are_counted() {
        let complaints = Complaints::new();
        let said = (0..1000).filter(|_| complaints.next().is_some()).count() as u64;
        let second = complaints.started.elapsed().as_secs();
        assert!((AT_ONCE..=AT_ONCE + second).contains(&said), "{said}");
        let unsaid = complaints.unsaid.load(Ordering::Relaxed);
        assert!(unsaid > 0 && unsaid <= 1000 - said, "{unsaid}");
    }
}
