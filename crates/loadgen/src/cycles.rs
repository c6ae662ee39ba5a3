//! The processor's cycle counter.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Returns the cycle count.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: reading the time-stamp counter has no effect on memory; user mode may do it on every Linux.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Returns the cycle count after all earlier loads have ended; [`now`] may be read before.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn after_loads() -> u64 {
    let mut processor = 0;
    // SAFETY: it writes only the number of the processor, to the variable; user mode may do it on every Linux.
    unsafe { core::arch::x86_64::__rdtscp(&mut processor) }
}

/// Returns the count of the virtual counter, which is as often as the machine says and no count of cycles.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn now() -> u64 {
    let count;
    // SAFETY: reading the counter has no effect on memory; user mode may do it on every Linux.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags)) };
    count
}

/// Returns the count after all earlier loads have ended; [`now`] may be read before.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn after_loads() -> u64 {
    // SAFETY: the barriers wait for loads and let the counter be read only then; they change nothing. Without `nomem`, so that the
    // compiler moves no load past them.
    unsafe { core::arch::asm!("dsb ld", "isb", options(nostack, preserves_flags)) };
    now()
}

/// A moment on three clocks: the difference between two gives the counter's frequency, and the caller's share of a processor.
pub struct Mark {
    cycles: u64,
    instant: Instant,
    processor: Duration,
}

/// The time between two moments.
#[derive(Clone, Copy, Debug)]
pub struct Elapsed {
    /// By the wall clock.
    pub seconds: f64,
    /// By the cycle counter.
    pub cycles: u64,
    /// Seconds of a processor that the calling thread used.
    pub processor: f64,
}

impl Mark {
    /// Returns this moment.
    pub fn now() -> Mark {
        let (cycles, instant) = both();
        Mark { cycles, instant, processor: processor() }
    }

    /// Returns the time since then; must be called from the same thread.
    pub fn elapsed(&self) -> Elapsed {
        let (cycles, instant) = both();
        Elapsed {
            seconds: (instant - self.instant).as_secs_f64(),
            cycles: cycles.wrapping_sub(self.cycles),
            processor: processor().saturating_sub(self.processor).as_secs_f64(),
        }
    }
}

/// Reads both clocks, without a pause between the two in which something else ran.
fn both() -> (u64, Instant) {
    let read = |_| {
        let (before, instant) = (now(), Instant::now());
        (now().wrapping_sub(before), before, instant)
    };
    let (_, cycles, instant) = (0..8).map(read).min_by_key(|&(gap, ..)| gap).expect("there are eight");
    (cycles, instant)
}

/// Returns the processor time of this thread so far.
fn processor() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Measures the counter's frequency in Hz, over a few milliseconds.
pub fn frequency() -> f64 {
    let mark = Mark::now();
    std::thread::sleep(Duration::from_millis(20));
    let Elapsed { seconds, cycles, .. } = mark.elapsed();
    cycles as f64 / seconds
}
