//! Measured and derived results.

use super::search::{Tried, best};
use crate::aggregation::rig::{Between, Cpus, Placement, Processed, Program};
use crate::latency::Latency;
use crate::machine::Machine;
use crate::statistics::Spread;
use serde::Serialize;
use std::collections::BTreeMap;

/// All results.
#[derive(Debug, Serialize)]
pub struct Results {
    /// Machine of the measurements.
    pub rig: Machine,
    /// The network function.
    pub function: Program,
    /// Measurements of each placement.
    pub rounds: u32,
    /// Seconds of each load.
    pub seconds: f64,
    /// One entry for each path and size.
    pub rows: Vec<Row>,
    /// Remarks for the reader.
    pub notes: Vec<String>,
}

/// One path and one packet size.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Path between the nodes.
    pub path: Between,
    /// Bytes of a packet.
    pub size: u16,
    /// Processors used.
    pub cpus: Cpus,
    /// Measurements in chronological order: each placement in turn, round by round.
    pub runs: Vec<Run>,
}

/// One placement in one round.
#[derive(Debug, Serialize)]
pub struct Run {
    /// Place where packets were split and joined.
    pub placement: Placement,
    /// Round, counted from 0.
    pub round: u32,
    /// Latency between the two nodes, or the second one and the program between them, before and after; `None` if they share a
    /// processor.
    pub latency: Option<[Latency; 2]>,
    /// All loads that were tried.
    pub loads: Vec<Load>,
}

/// Results of one load.
#[derive(Debug, Serialize)]
pub struct Load {
    /// Requested packets per second; `None` for as many as can be sent.
    pub rate: Option<u64>,
    /// Millions of packets per second that reached the first node.
    pub sent: f64,
    /// Millions of packets per second that came out behind the network function.
    pub mpps: f64,
    /// Packets per frame between the nodes.
    pub packets_a_frame: f64,
    /// Millions of frames per second between the nodes.
    pub frames: f64,
    /// The first node.
    pub a: Spent,
    /// The second node.
    pub b: Spent,
    /// Share of the frames from the link that stayed in the function's buffers in which they came, if the second node has a
    /// mapping.
    pub in_place: Option<f64>,
    /// Counters of the function from its start to its end.
    pub function: Processed,
    /// Cycles per frame of a program between the nodes.
    pub link_cycles: Option<f64>,
    /// Frames dropped by the nodes, by port and reason.
    pub drops: BTreeMap<String, u64>,
}

/// Cost of a node.
#[derive(Debug, Serialize)]
pub struct Spent {
    /// Cycles in rounds that moved frames, per packet that came out. A node that shares its processor may be preempted within a
    /// round, and then the time of the other program counts as well.
    pub cycles: f64,
    /// Processor time per packet that came out, in nanoseconds, including idle polling.
    pub nanoseconds: f64,
    /// Cycles per packet of each stage, sampled since the node started.
    pub stages: BTreeMap<String, f64>,
}

impl Tried for Load {
    fn sent(&self) -> f64 {
        self.sent
    }

    fn through(&self) -> f64 {
        self.mpps
    }
}

impl Run {
    /// Returns the load that counts: the one with the greatest throughput.
    pub fn best(&self) -> Option<&Load> {
        best(&self.loads)
    }

    /// Reports whether the processors were equally far apart before and after both.
    fn compares(&self, other: &Run) -> bool {
        match (&self.latency, &other.latency) {
            (Some(one), Some(other)) => {
                let mut all = one.iter().chain(other).map(|latency| latency.distance);
                let first = all.next();
                all.all(|distance| Some(distance) == first)
            }
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl Row {
    /// Returns the placements, in the order in which they were measured.
    pub fn placements(&self) -> Vec<Placement> {
        self.runs.iter().filter(|run| run.round == 0).map(|run| run.placement).collect()
    }

    /// Returns the spread of a figure of one placement over all rounds.
    pub fn spread(&self, placement: Placement, figure: impl Fn(&Load) -> f64) -> Option<Spread> {
        let runs = self.runs.iter().filter(|run| run.placement == placement);
        Spread::of(runs.filter_map(|run| run.best()).map(figure))
    }

    /// Returns the throughput relative to that without aggregation, round by round. A round does not count if the processors moved.
    pub fn ratio(&self, placement: Placement) -> Option<Spread> {
        let of = |placement: Placement| self.runs.iter().filter(move |run| run.placement == placement);
        Spread::of(of(placement).filter_map(|run| {
            let other = of(Placement::None).find(|other| other.round == run.round && run.compares(other))?;
            Some(run.best()?.mpps / other.best()?.mpps)
        }))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::latency::Distance;

    /// Returns a row with these rates, for two placements in turn. During runs with more than 6.5 Mpps, processors move.
    pub fn row(path: Between, size: u16, rates: &[[f64; 2]]) -> Row {
        let load = |mpps: f64| Load {
            rate: None,
            sent: 2.0 * mpps,
            mpps,
            packets_a_frame: 16.0,
            frames: mpps / 16.0,
            a: Spent { cycles: 50.0, nanoseconds: 20.0, stages: BTreeMap::new() },
            b: Spent { cycles: 60.0, nanoseconds: 25.0, stages: BTreeMap::new() },
            in_place: None,
            function: Processed::default(),
            link_cycles: None,
            drops: BTreeMap::new(),
        };
        let latency = |nanoseconds| Latency {
            nanoseconds,
            distance: if nanoseconds < 100.0 { Distance::Near } else { Distance::Far },
        };
        let run = |round: usize, placement, mpps| Run {
            placement,
            round: round as u32,
            latency: Some([latency(40.0), latency(if mpps > 6.5 { 170.0 } else { 40.0 })]),
            loads: vec![load(mpps / 2.0), load(mpps)],
        };
        let runs = rates.iter().enumerate().flat_map(|(round, &[none, vhost])| {
            [run(round, Placement::None, none), run(round, Placement::Vhost, vhost)]
        });
        Row { path, size, cpus: Cpus::on([1, 0, 0, 1]), runs: runs.collect() }
    }

    #[test]
    fn the_best_load_counts_and_ratios_are_taken_within_rounds() {
        let row = row(Between::Ovs, 64, &[[1.0, 4.0], [2.0, 6.0], [1.0, 5.0]]);
        assert_eq!(row.spread(Placement::Vhost, |load| load.mpps), Some(Spread { median: 5.0, min: 4.0, max: 6.0 }));
        assert_eq!(row.ratio(Placement::Vhost), Some(Spread { median: 4.0, min: 3.0, max: 5.0 }));
        assert_eq!(row.ratio(Placement::Nf), None);
        let moved = super::tests::row(Between::Ovs, 64, &[[1.0, 4.0], [2.0, 6.0], [1.0, 7.0]]);
        assert_eq!(moved.ratio(Placement::Vhost), Some(Spread { median: 3.5, min: 3.0, max: 4.0 }));
        assert_eq!(row.placements(), [Placement::None, Placement::Vhost]);
    }
}
