//! Addresses of the process that are given to guests' memory.
//!
//! A region costs its guest nothing if it is sparse, but takes as many of our addresses as if it was not. Without bounds a
//! few regions take all that there are, and the next guest, the next thread and the next allocation find none.

use super::region::MemoryError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most bytes of addresses for all guests: half of what x86-64 gives a process.
pub(super) const MAX_ALL: u64 = 1 << 46;

static TAKEN: AtomicU64 = AtomicU64::new(0);

/// So many bytes of them, until dropped.
#[derive(Debug)]
pub(super) struct Share(u64);

impl Share {
    pub(super) fn take(len: u64) -> Result<Share, MemoryError> {
        let fits = |taken: u64| taken.checked_add(len).filter(|&sum| sum <= MAX_ALL);
        match TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(Share(len)),
            Err(taken) => Err(MemoryError::NoAddresses { len, taken }),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}
