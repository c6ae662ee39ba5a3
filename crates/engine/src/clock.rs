//! The cycle counter used for all measurements.

use quanta::Clock;
use std::sync::LazyLock;
use std::time::Duration;

static CYCLES: LazyLock<Cycles> = LazyLock::new(|| {
    let clock = Clock::new();
    // Counter frequency, from the ratio that quanta calibrated.
    let nanos = clock.delta_as_nanos(0, 1 << 40).max(1);
    let hz = (u128::from(1u64 << 40) * 1_000_000_000 / u128::from(nanos)) as u64;
    Cycles { clock, hz }
});

/// A worker's view of the counter: no static look-up on the path of a frame.
#[derive(Clone)]
pub(crate) struct Cycles {
    clock: Clock,
    hz: u64,
}

impl Cycles {
    pub(crate) fn new() -> Cycles {
        CYCLES.clone()
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        self.clock.raw()
    }

    /// Returns the nanoseconds since [`start`].
    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        self.clock.delta_as_nanos(start(), self.now())
    }

    pub(crate) fn hz(&self) -> u64 {
        self.hz
    }

    /// Returns the counts in `duration`.
    pub(crate) fn per(&self, duration: Duration) -> u64 {
        (u128::from(self.hz) * duration.as_nanos() / 1_000_000_000) as u64
    }
}

static START: LazyLock<u64> = LazyLock::new(|| CYCLES.now());

/// Returns the count at the first call, from which seconds are counted.
pub(crate) fn start() -> u64 {
    *START
}

/// Returns the seconds since [`start`].
pub(crate) fn seconds() -> u32 {
    let cycles = Cycles::new();
    (cycles.now().wrapping_sub(start()) / cycles.hz()) as u32
}
