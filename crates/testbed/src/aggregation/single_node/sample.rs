//! Results of one measurement.

use crate::aggregation::rig::Interval;
use engine::stats::{Snapshot, WorkerStats};
use hdrhistogram::Histogram;
use loadgen::traffic::{OfferedLoad, Passed};
use serde::Serialize;
use std::collections::BTreeMap;

/// Results of one measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Requested packets per second.
    pub rate: f64,
    /// Seconds in which packets were sent.
    pub seconds: f64,
    /// Packets sent.
    pub offered: u64,
    /// Packets among these for which the node's NIC had no buffer.
    pub refused: u64,
    /// Packets that came through.
    pub received: u64,
    /// Frames that they were in.
    pub frames: u64,
    /// Packets that did not come through, including the refused ones.
    pub lost: u64,
    /// Packets that came twice or out of order, or were never sent.
    pub strange: u64,
    /// Packets sent at once, on average.
    pub at_once: f64,
    /// Number of times that the traffic's thread was not running.
    pub stalls: u64,
    /// Seconds that it was not running.
    pub stalled: f64,
    /// Share of the time in which the traffic's thread was busy.
    pub traffic_busy: f64,
    /// Cycles of the node in rounds that moved frames, per packet that came through.
    pub cycles: f64,
    /// Cycles per packet of each of its stages, sampled since it started.
    pub stages: BTreeMap<String, f64>,
    /// Packets dropped by the node, by port and reason.
    pub drops: BTreeMap<String, u64>,
    /// Times that packets took.
    pub times: Times,
    /// Number of runs of lost packets, by length of the run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub runs: BTreeMap<u64, u64>,
    /// The times in cycles.
    #[serde(skip)]
    pub histogram: Histogram<u64>,
}

/// Distribution of packet times, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Times {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Mean.
    pub mean: f64,
    /// Maximum.
    pub greatest: f64,
}

impl Times {
    /// Computes them from times in cycles.
    pub fn of(histogram: &Histogram<u64>, hz: f64) -> Times {
        let microseconds = |cycles: f64| cycles / hz * 1e6;
        let at = |share| microseconds(histogram.value_at_quantile(share) as f64);
        Times {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            mean: microseconds(histogram.mean()),
            greatest: microseconds(histogram.max() as f64),
        }
    }
}

impl Sample {
    /// Computes a sample from two snapshots of the node.
    pub fn new(load: &OfferedLoad, passed: Passed, node: Interval<'_>, hz: f64) -> Sample {
        let arrivals = passed.arrivals;
        let received = arrivals.losses.received();
        let busy = |snapshot: &Snapshot| snapshot.workers.iter().map(|w: &WorkerStats| w.busy_cycles).sum();
        let stages = node.after.workers.first().map(|worker| worker.stage_cycles_per_packet.clone());
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
            cycles: node.growth(busy) as f64 / received.max(1) as f64,
            stages: stages.unwrap_or_default(),
            drops: node.drops(""),
            times: Times::of(&arrivals.times, hz),
            runs: arrivals.losses.runs().clone(),
            histogram: arrivals.times,
        }
    }

    /// Returns the frames that came out, in percent of the packets.
    pub fn frames_percent(&self) -> f64 {
        100.0 * self.frames as f64 / self.received.max(1) as f64
    }

    /// Returns the lost packets in percent of those sent.
    pub fn lost_percent(&self) -> f64 {
        100.0 * self.lost as f64 / self.offered.max(1) as f64
    }

    /// Returns the millions of packets per second that came through.
    pub fn mpps(&self) -> f64 {
        self.received as f64 / self.seconds / 1e6
    }
}
