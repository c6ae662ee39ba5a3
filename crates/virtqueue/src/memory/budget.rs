//! The process's address space for guest memory.
//!
//! A sparse region costs its guest nothing, but takes as much of our address space as any other. Without a limit a few
//! regions exhaust it, and the next guest, thread or allocation fails.

use super::error::{MAX_ALL, MemoryError};
use std::sync::atomic::{AtomicU64, Ordering};

static TAKEN: AtomicU64 = AtomicU64::new(0);

/// A share of the address space in bytes, returned when dropped.
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
