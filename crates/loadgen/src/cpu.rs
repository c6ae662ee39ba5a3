//! Processor affinity of the calling thread.

use rustix::thread::{CpuSet, sched_setaffinity};

/// Error of pinning a thread to a processor.
#[derive(Debug, thiserror::Error)]
#[error("can't run on processor {cpu}: {source}; is it online, and allowed by taskset or cgroup?")]
pub struct PinError {
    cpu: usize,
    source: std::io::Error,
}

/// Pins the calling thread to `cpu`.
pub fn pin(cpu: usize) -> Result<(), PinError> {
    let failed = |source: std::io::Error| PinError { cpu, source };
    if cpu >= CpuSet::MAX_CPU {
        return Err(failed(std::io::ErrorKind::InvalidInput.into()));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|e| failed(e.into()))
}
