//! The processor's cycle counter.

use std::time::Instant;

/// Cycles since some moment.
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: reading the time-stamp counter has no effect on memory; user mode may do it on every Linux.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// A moment on both clocks, to tell the counter's frequency from a later one.
pub struct Mark {
    cycles: u64,
    instant: Instant,
}

impl Mark {
    /// This moment.
    pub fn now() -> Mark {
        Mark { cycles: now(), instant: Instant::now() }
    }

    /// Seconds and cycles since then.
    pub fn elapsed(&self) -> (f64, u64) {
        let cycles = now().wrapping_sub(self.cycles);
        (self.instant.elapsed().as_secs_f64(), cycles)
    }
}

/// The counter's frequency in Hz, measured over a few milliseconds.
pub fn frequency() -> f64 {
    let mark = Mark::now();
    std::thread::sleep(std::time::Duration::from_millis(20));
    let (seconds, cycles) = mark.elapsed();
    cycles as f64 / seconds
}
