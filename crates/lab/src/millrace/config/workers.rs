//! Workers, and settings of the whole program.

use super::*;

fn resting(idle: Idle) -> RawWorker {
    RawWorker { idle: idle.into(), ..RawWorker::default() }
}

/// Returns a worker that sleeps when idle, on any processor.
pub fn sleeper() -> RawWorker {
    resting(Idle::Sleep)
}

/// Returns a worker that polls less and less often while nothing comes.
pub fn backing_off() -> RawWorker {
    resting(Idle::Backoff)
}

/// Returns a worker that polls on.
pub fn polling() -> RawWorker {
    resting(Idle::Poll)
}

/// Returns the worker on this processor only.
pub fn pinned(cpu: usize, worker: RawWorker) -> RawWorker {
    RawWorker { cpu: (cpu as i64).into(), ..worker }
}

/// Leaves the program all its privileges.
pub fn unconfined() -> RawConfinement {
    RawConfinement { enabled: false.into(), ..RawConfinement::default() }
}
