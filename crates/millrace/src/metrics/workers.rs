//! Counters of workers as OpenMetrics.

use super::family::{Counter, Family, count};
use engine::stats::WorkerStats;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, workers: &[WorkerStats]) -> fmt::Result {
    let labels = |worker: &&WorkerStats| {
        let cpu = worker.cpu.map_or("any".to_owned(), |cpu| cpu.to_string());
        [("worker", worker.index.to_string()), ("cpu", cpu)]
    };
    let counters: [Counter<WorkerStats>; 5] = [
        Counter::new("worker_busy_cycles", "Cycles in rounds that moved frames", |worker| worker.busy_cycles),
        Counter::new("worker_idle_cycles", "Cycles spent polling without finding frames", |worker| worker.idle_cycles),
        Counter::new("worker_busy_rounds", "Rounds that moved frames", |worker| worker.busy_rounds),
        Counter::new("worker_sleeps", "Times the worker went to sleep", |worker| worker.sleeps),
        Counter::new("worker_packets", "Frames that the worker received", |worker| worker.packets),
    ];
    for Counter { family, read } in counters {
        family.encode(encoder, workers, labels, |worker, sample| count(sample, read(worker)))?;
    }
    let hung = Family::gauge("worker_hung_seconds", "Time since the last round of a worker that hangs");
    hung.encode(encoder, workers, labels, |worker, sample| {
        sample.encode_gauge(&worker.hung_seconds.unwrap_or_default())
    })?;
    let stages = workers.iter().flat_map(|worker| {
        worker
            .stage_cycles_per_packet
            .iter()
            .chain(&worker.parent_cycles_per_packet)
            .map(move |(stage, cycles)| (worker.index, stage, *cycles))
    });
    let labels =
        |(worker, stage, _): &(usize, &String, f64)| [("worker", worker.to_string()), ("stage", (*stage).clone())];
    let cost = Family::gauge("worker_stage_cycles_per_packet", "Cycles per frame of a stage, sampled");
    cost.encode(encoder, stages, labels, |(_, _, cycles), sample| sample.encode_gauge(cycles))
}
