//! The processor's cycle counter.

use quanta::Clock;

/// A thread's view of the counter: no look-up on the path of a frame.
#[derive(Clone, Debug)]
pub struct Cycles(Clock);

impl Cycles {
    /// Returns a view of the counter. The first call of a process may take a fraction of a second.
    #[allow(clippy::new_without_default)] // There is nothing that is default about it.
    pub fn new() -> Cycles {
        Cycles(Clock::new())
    }

    /// Returns the current count.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.0.raw()
    }

    /// Keeps the processor busy for `count` cycles.
    #[inline]
    pub fn spend(&self, count: u64) {
        let start = self.now();
        while self.now().wrapping_sub(start) < count {
            std::hint::spin_loop();
        }
    }
}
