//! The threads of workers: started, pinned and joined.

use super::error::CrewError;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::any::Any;
use std::thread::{self, Builder, Scope, ScopedJoinHandle};

/// The thread of a worker.
pub(super) struct Thread<'scope, T> {
    number: usize,
    handle: ScopedJoinHandle<'scope, T>,
}

impl<T> Thread<'_, T> {
    pub(super) fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

/// Starts a thread for each of `bodies`, on the processors of `cpus` if there are any. Their numbers begin with `first`. The
/// calling thread is pinned, too, to one after the other: a thread inherits this, and an error is known before it runs.
pub(super) fn start<'scope, T: Send + 'scope, F: FnOnce() -> T + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    first: usize,
    cpus: &[usize],
    bodies: impl IntoIterator<Item = F>,
) -> Result<Vec<Thread<'scope, T>>, CrewError> {
    let mut threads = Vec::new();
    for (index, body) in bodies.into_iter().enumerate() {
        let number = first + index;
        if let Some(&cpu) = cpus.get(index) {
            pin(cpu)?;
        }
        let handle = Builder::new().name(format!("worker {number}")).spawn_scoped(scope, body);
        threads.push(Thread { number, handle: handle.map_err(|source| CrewError::Spawn { number, source })? });
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

/// Waits for the threads to end, and returns their values. Fails if one has panicked.
pub(super) fn join<T>(threads: Vec<Thread<'_, T>>) -> Result<Vec<T>, CrewError> {
    let outcomes: Vec<_> = threads.into_iter().map(|thread| (thread.number, thread.handle.join())).collect();
    let outcome =
        |(number, outcome): (usize, thread::Result<T>)| outcome.map_err(|payload| panicked(number, &*payload));
    outcomes.into_iter().map(outcome).collect()
}

pub(super) fn panicked(number: usize, payload: &(dyn Any + Send)) -> CrewError {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    CrewError::Panicked { number, message: text.unwrap_or("it did not say why").to_owned() }
}
