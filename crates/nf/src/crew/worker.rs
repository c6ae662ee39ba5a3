//! A worker of a parent: claims batches, and processes their frames.

use super::batch::Batch;
use super::counters::WorkerCounters;
use super::parking::{Parking, Rest};
use super::view::{Verdict, View};
use crate::cycles::Cycles;
use crate::run::Idle;

/// A worker's function, and its counters.
pub(super) struct Work<'c, W> {
    pub(super) function: W,
    pub(super) counters: &'c mut WorkerCounters,
}

/// Processes batches until the parking is over and none is left.
pub(super) fn run<W: FnMut(&mut View<'_>) -> Verdict>(
    mut worker: roles::Worker<Batch>,
    mut work: Work<'_, W>,
    ports: u16,
    parking: &Parking,
    idle: Idle,
) {
    let cycles = Cycles::new();
    let mut rest = Rest::new(parking, idle);
    loop {
        let start = cycles.now();
        match worker.claim() {
            Some(mut claim) => {
                let claimed = cycles.now();
                rest.end();
                claim.process(ports, &mut work.function);
                let processed = cycles.now();
                let packets = claim.len();
                claim.complete();
                work.counters.add(packets, [start, claimed, processed, cycles.now()]);
            }
            None if parking.is_over() => break rest.end(),
            None => rest.pause(),
        }
    }
}
