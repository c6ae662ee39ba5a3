//! A worker of a parent: claims batches, and processes their frames.

use super::batch::Batch;
use super::counters::WorkerCounters;
use super::rest::Rest;
use super::view::{Verdict, View};
use crate::cycles::Cycles;
use crate::run::Idle;
use handover::Parking;
use roles::Claim;

/// A worker's function, and its counters.
pub(super) struct Work<'c, W> {
    pub(super) function: W,
    pub(super) counters: &'c mut WorkerCounters,
}

impl<W: FnMut(&mut View<'_>) -> Verdict> Work<'_, W> {
    /// Processes a batch that was claimed since `start`, and gives it back.
    #[inline]
    pub(super) fn process(&mut self, mut claim: Claim<'_, Batch>, ports: u16, start: u64, cycles: &Cycles) {
        let claimed = cycles.now();
        claim.process(ports, &mut self.function);
        let processed = cycles.now();
        let packets = claim.len();
        claim.complete();
        self.counters.add(packets, [start, claimed, processed, cycles.now()]);
    }
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
            Some(claim) => {
                rest.end();
                work.process(claim, ports, start, &cycles);
            }
            None if parking.is_over() => break rest.end(),
            None => rest.pause(),
        }
    }
}
