//! The threads of workers: started, pinned and joined.

use super::error::CrewError;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::any::Any;
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Starts a thread for each of `bodies`, on the processors of `cpus` if there are any. The calling thread is pinned, too, to
/// one after the other: a thread inherits this, and an error is known before it runs.
pub(super) fn start<'scope, F: FnOnce() + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    cpus: &[usize],
    bodies: impl IntoIterator<Item = F>,
) -> Result<Vec<ScopedJoinHandle<'scope, ()>>, CrewError> {
    let mut threads = Vec::new();
    for (index, body) in bodies.into_iter().enumerate() {
        let number = index + 1;
        if let Some(&cpu) = cpus.get(index) {
            pin(cpu)?;
        }
        let thread = Builder::new().name(format!("worker {number}")).spawn_scoped(scope, body);
        threads.push(thread.map_err(|source| CrewError::Spawn { number, source })?);
    }
    Ok(threads)
}

/// Pins the calling thread to a processor.
pub(super) fn pin(cpu: usize) -> Result<(), CrewError> {
    let failed = |source: std::io::Error| CrewError::Pin { cpu, source };
    if cpu >= CpuSet::MAX_CPU {
        return Err(failed(std::io::ErrorKind::InvalidInput.into()));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|error| failed(error.into()))
}

/// Waits for the threads to end. Fails if one has panicked.
pub(super) fn join(threads: Vec<ScopedJoinHandle<'_, ()>>) -> Result<(), CrewError> {
    let outcomes: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
    let panicked = (1..).zip(outcomes).find_map(|(number, outcome)| Some((number, outcome.err()?)));
    panicked.map_or(Ok(()), |(number, payload)| Err(CrewError::Panicked { number, message: message(&*payload) }))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it did not say why").to_owned()
}
