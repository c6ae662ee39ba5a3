//! The results as they are kept.

use super::found::{BOUND, Found, Measured, THREADS};
use super::model::{Cost, Kind, Link};
use super::plan::{Flows, Load, Point, Sharing};
use super::subject::Part;
use super::switch::Workers;
use crate::record::{Record, rounded};
use crate::statistics::Spread;
use serde::Serialize;
use std::collections::BTreeMap;

/// Offered loads, as shares of the capacity, for which queues are predicted.
pub const OFFERED: [f64; 3] = [0.2, 0.9, 1.2];
/// Threads for which they are.
pub const QUEUED: u32 = 4;

/// A row as it is kept.
#[derive(Debug, Serialize)]
#[serde(tag = "figure", rename_all = "kebab-case")]
pub enum Row {
    /// Cycles of sharing and I/O for each packet, without work.
    Cycles {
        sharing: Sharing,
        threads: u16,
        flows: Flows,
        load: Load,
        median: f64,
        mean: f64,
        /// At shares of 10, 25, 75, 90 and 99 % of all packets.
        quantiles: [f64; 5],
        /// Means of parts.
        parts: BTreeMap<Part, f64>,
        /// Packets in a batch.
        batch: f64,
        /// Median and mean, relative to one thread.
        growth: Option<[f64; 2]>,
        /// Share of packets above the bound, which do not count.
        excluded: f64,
    },
    /// Speed with work: median, least and greatest.
    Speed {
        sharing: Sharing,
        threads: u16,
        flows: Flows,
        parents: u16,
        work: u64,
        work_measured: f64,
        mpps: [f64; 3],
        speed_up: Option<[f64; 3]>,
        predicted_mpps: Option<f64>,
        deviation: Option<f64>,
    },
    /// Cycles of the switch's workers for each frame, and their speed: median, least and greatest.
    Switch {
        sharing: Sharing,
        threads: u16,
        cycles: f64,
        /// Relative to one worker.
        growth: Option<f64>,
        steps: BTreeMap<String, f64>,
        mpps: Option<[f64; 3]>,
    },
    /// Input of the model, in cycles: of a batch, and of a packet in it.
    Costs { alone: [f64; 2], parent: [f64; 2], worker: [f64; 2], locked: [f64; 2], moved: f64, hand_over: f64 },
    /// Prediction for 1 to 16 threads.
    Model { sharing: &'static str, work: u64, mpps: Vec<f64>, saturation: Option<u32> },
    /// Threads that fill a link; none if it is never full.
    Link { gigabits: u16, frames: String, link_mpps: f64, work: u64, threads: BTreeMap<&'static str, Option<u32>> },
    /// Packets that wait, and packets that are lost, at a share of the capacity of four threads.
    Queue { sharing: &'static str, work: u64, offered: f64, waiting: Option<f64>, lost: f64 },
}

/// Returns the results as they are kept.
pub fn record(found: &Found) -> Record<Row> {
    let mut rows: Vec<Row> = found.costs().map(|measured| cycles(found, measured)).collect();
    rows.extend(found.speeds().filter_map(|measured| speed(found, measured)));
    rows.extend(found.switch.iter().map(|workers| switch(found, workers)));
    if let Some(costs) = found.model_costs() {
        let pair = |cost: Cost| [rounded(cost.batch, 1), rounded(cost.packet, 1)];
        let [alone, parent, worker, locked] = [costs.alone, costs.parent, costs.worker, costs.locked].map(pair);
        let [moved, hand_over] = [costs.moved, costs.hand_over].map(|cycles| rounded(cycles, 1));
        rows.push(Row::Costs { alone, parent, worker, locked, moved, hand_over });
    }
    rows.extend(found.works().into_iter().flat_map(|(asked, work)| predictions(found, asked, work)));
    let bound = format!("packets of more than {BOUND} cycles were preempted, and do not count");
    let notes: Vec<_> = [bound].into_iter().chain(found.note().map(str::to_owned)).collect();
    Record::new(&found.rig, &notes, rows).with_cores(found.latencies.iter().copied())
}

fn cycles(found: &Found, measured: &Measured) -> Row {
    let Point { sharing, threads, flows, load, .. } = measured.point;
    let cycles = measured.cycles();
    Row::Cycles {
        sharing,
        threads,
        flows,
        load,
        median: rounded(measured.median(), 1),
        mean: rounded(measured.mean(), 1),
        quantiles: [0.1, 0.25, 0.75, 0.9, 0.99].map(|share| rounded(cycles.quantile(share), 1)),
        parts: measured.parts().map(|(part, mean)| (part, rounded(mean, 1))).collect(),
        batch: rounded(measured.batch(), 1),
        growth: found.growth(measured).map(|growth| growth.map(|growth| rounded(growth, 2))),
        excluded: rounded(measured.excluded(), 4),
    }
}

/// Returns the median, the least and the greatest value, times a factor.
fn three(spread: Spread, factor: f64) -> [f64; 3] {
    [spread.median, spread.min, spread.max].map(|value| rounded(factor * value, 2))
}

fn switch(found: &Found, workers: &Workers) -> Row {
    Row::Switch {
        sharing: workers.point.sharing,
        threads: workers.point.threads,
        cycles: rounded(workers.cycles(), 1),
        growth: found.growth_of_switch(workers).map(|growth| rounded(growth, 2)),
        steps: workers.steps().into_iter().map(|(step, cycles)| (step.to_owned(), rounded(cycles, 1))).collect(),
        mpps: workers.pace().map(|pace| three(pace, found.mpps(1.0))),
    }
}

fn speed(found: &Found, measured: &Measured) -> Option<Row> {
    let pace = measured.pace()?;
    let predicted = found.predicted(measured);
    Some(Row::Speed {
        sharing: measured.point.sharing,
        threads: measured.point.threads,
        flows: measured.point.flows,
        parents: measured.point.sharing.parents(),
        work: measured.point.work,
        work_measured: rounded(measured.work(), 0),
        mpps: three(pace, found.mpps(1.0)),
        speed_up: found.speed_up(measured).map(|spread| three(spread, 1.0)),
        predicted_mpps: predicted.map(|pace| rounded(found.mpps(pace), 2)),
        deviation: predicted.map(|predicted| rounded(predicted / pace.median - 1.0, 3)),
    })
}

fn predictions(found: &Found, asked: u64, work: f64) -> Vec<Row> {
    let Some(model) = found.model(work) else { return Vec::new() };
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        let mpps = THREADS.map(|threads| rounded(found.mpps(model.capacity(kind, threads)), 2)).collect();
        rows.push(Row::Model { sharing: kind.name(), work: asked, mpps, saturation: model.saturation(kind) });
    }
    for link in Link::all() {
        let threads = Kind::ALL.map(|kind| (kind.name(), found.fills(&model, kind, link))).into();
        let link_mpps = rounded(link.packets() / 1e6, 2);
        let Link { gigabits, frames } = link;
        rows.push(Row::Link { gigabits, frames: frames.to_string(), link_mpps, work: asked, threads });
    }
    for kind in Kind::ALL {
        for offered in OFFERED {
            let queue = model.queue(kind, QUEUED, offered * model.capacity(kind, QUEUED));
            let waiting = queue.waiting.map(|waiting| rounded(waiting, 2));
            rows.push(Row::Queue { sharing: kind.name(), work: asked, offered, waiting, lost: rounded(queue.lost, 3) });
        }
    }
    rows
}
