//! What became of the packets of one measurement.

use crate::aggregation::rig::{between, drops};
use crate::aggregation::traffic::{Histogram, Load, Passed};
use engine::stats::{Snapshot, WorkerStats};
use serde::Serialize;
use std::collections::BTreeMap;

/// See the module.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Packets a second that were asked for.
    pub rate: f64,
    /// Seconds in which packets were sent.
    pub seconds: f64,
    /// Packets that were sent.
    pub offered: u64,
    /// Of these, packets that the node's NIC had no buffer for.
    pub refused: u64,
    /// Packets that came through.
    pub received: u64,
    /// The frames that they were in.
    pub frames: u64,
    /// Packets that did not come through, the refused ones included.
    pub lost: u64,
    /// Packets that came twice or out of order, and what was never sent.
    pub strange: u64,
    /// Packets sent at once, on average.
    pub at_once: f64,
    /// Times that the traffic's thread was kept from running, and for how many seconds.
    pub stalls: u64,
    /// See above.
    pub stalled: f64,
    /// Share of the time in which the traffic's thread had something to do.
    pub traffic_busy: f64,
    /// Cycles of the node in rounds that moved frames, for each packet that came through.
    pub cycles: f64,
    /// Cycles a packet of each of its stages, sampled since it started.
    pub stages: BTreeMap<String, f64>,
    /// What the node dropped, by port and reason.
    pub drops: BTreeMap<String, u64>,
    /// How long packets took.
    pub times: Times,
    /// How many packets were lost in a row, and how often.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub runs: BTreeMap<u64, u64>,
    /// The times, in cycles.
    #[serde(skip)]
    pub histogram: Histogram,
}

/// How long packets took, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Times {
    /// Half of them took less.
    pub p50: f64,
    /// Nine of ten took less, and so on.
    pub p90: f64,
    /// See above.
    pub p99: f64,
    /// See above.
    pub p999: f64,
    /// On average.
    pub mean: f64,
    /// The longest one.
    pub greatest: f64,
}

impl Times {
    /// Of times in cycles.
    pub fn of(histogram: &Histogram, hz: f64) -> Times {
        let microseconds = |cycles: f64| cycles / hz * 1e6;
        let at = |share| microseconds(histogram.percentile(share));
        Times {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            mean: microseconds(histogram.mean()),
            greatest: microseconds(histogram.greatest() as f64),
        }
    }
}

impl Sample {
    /// Between two looks at the node.
    pub fn new(load: &Load, passed: Passed, (before, after): (&Snapshot, &Snapshot), hz: f64) -> Sample {
        let arrivals = passed.arrivals;
        let received = arrivals.losses.received();
        let busy = |snapshot: &Snapshot| snapshot.workers.iter().map(|w: &WorkerStats| w.busy_cycles).sum();
        let stages = after.workers.first().map(|worker| worker.stage_cycles_per_packet.clone());
        Sample {
            rate: load.rate,
            seconds: passed.seconds,
            offered: passed.offered,
            refused: passed.refused,
            received,
            frames: arrivals.frames,
            lost: arrivals.losses.lost(),
            strange: arrivals.strange + arrivals.losses.late(),
            at_once: passed.offered as f64 / passed.turns.max(1) as f64,
            stalls: passed.stalls,
            stalled: passed.stalled,
            traffic_busy: passed.busy,
            cycles: between(before, after, busy) as f64 / received.max(1) as f64,
            stages: stages.unwrap_or_default(),
            drops: drops("", (before, after)),
            times: Times::of(&arrivals.times, hz),
            runs: arrivals.losses.runs().clone(),
            histogram: arrivals.times,
        }
    }

    /// Frames in percent of packets, as they came out.
    pub fn frames_percent(&self) -> f64 {
        100.0 * self.frames as f64 / self.received.max(1) as f64
    }

    /// Packets lost in percent of those that were sent.
    pub fn lost_percent(&self) -> f64 {
        100.0 * self.lost as f64 / self.offered.max(1) as f64
    }

    /// Millions of packets a second that came through.
    pub fn mpps(&self) -> f64 {
        self.received as f64 / self.seconds / 1e6
    }
}
