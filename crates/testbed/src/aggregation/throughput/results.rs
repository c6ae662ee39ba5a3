//! What was measured, and what follows from it.

use super::search::{Tried, best};
use crate::aggregation::rig::{Between, Cpus, Placement, Processed};
use crate::compare::{Rig as Machine, Spread};
use crate::latency::Latency;
use serde::Serialize;
use std::collections::BTreeMap;

/// All of it.
#[derive(Debug, Serialize)]
pub struct Results {
    /// Where it was measured.
    pub rig: Machine,
    /// Measurements of each placement.
    pub rounds: u32,
    /// Seconds of each load.
    pub seconds: f64,
    /// One entry for each path and size.
    pub rows: Vec<Row>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// One path and one packet size.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What is between the nodes.
    pub path: Between,
    /// Bytes of a packet.
    pub size: u16,
    /// What ran where.
    pub cpus: Cpus,
    /// How far apart the two nodes were before the first measurement, or the second one and the program between them.
    pub latency: Option<Latency>,
    /// Measurements in the order in which they were made: each placement in turn, round by round.
    pub runs: Vec<Run>,
}

/// One placement in one round.
#[derive(Debug, Serialize)]
pub struct Run {
    /// Where packets were split and joined.
    pub placement: Placement,
    /// Counted from 0.
    pub round: u32,
    /// All loads that were tried.
    pub loads: Vec<Load>,
}

/// What came of one load.
#[derive(Debug, Serialize)]
pub struct Load {
    /// Packets a second that were asked for; none if as many as can be sent.
    pub rate: Option<u64>,
    /// Millions of packets a second that came to the first node.
    pub sent: f64,
    /// Millions of packets a second that came out behind the network function.
    pub mpps: f64,
    /// Packets in a frame between the nodes.
    pub packets_a_frame: f64,
    /// Millions of frames a second between the nodes.
    pub frames: f64,
    /// The first node.
    pub a: Spent,
    /// The second node.
    pub b: Spent,
    /// What the function did, from its start to its end.
    pub function: Processed,
    /// Cycles of a program between the nodes for each frame.
    pub link_cycles: Option<f64>,
    /// What the nodes dropped, by port and reason.
    pub drops: BTreeMap<String, u64>,
}

/// What a node spent.
#[derive(Debug, Serialize)]
pub struct Spent {
    /// Cycles in rounds that moved frames, for each packet that came out. Who shares a processor is now and then put off in
    /// the middle of a round, and the time that the other one had counts as well.
    pub cycles: f64,
    /// Nanoseconds of a processor for each packet that came out, polling in vain included.
    pub nanoseconds: f64,
    /// Cycles a packet of each stage, sampled since the node started.
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
    /// What counts: the load under which most came through.
    pub fn best(&self) -> Option<&Load> {
        best(&self.loads)
    }

    /// The load that counts, and the ones tried that are next to it.
    pub fn around_best(&self) -> Vec<Option<u64>> {
        let mut rates: Vec<Option<u64>> = self.loads.iter().map(|load| load.rate).collect();
        // As much as can be sent is the most.
        rates.sort_by_key(|rate| rate.unwrap_or(u64::MAX));
        rates.dedup();
        let best = self.best().and_then(|best| rates.iter().position(|rate| *rate == best.rate)).unwrap_or(0);
        rates[best.saturating_sub(1)..rates.len().min(best + 2)].to_vec()
    }
}

impl Row {
    /// The placements, in the order in which they were measured.
    pub fn placements(&self) -> Vec<Placement> {
        self.runs.iter().filter(|run| run.round == 0).map(|run| run.placement).collect()
    }

    /// A figure of one placement over all rounds.
    pub fn spread(&self, placement: Placement, figure: impl Fn(&Load) -> f64) -> Option<Spread> {
        let runs = self.runs.iter().filter(|run| run.placement == placement);
        Spread::of(runs.filter_map(|run| run.best()).map(figure))
    }

    /// How many times as much came through as without aggregation, round by round.
    pub fn ratio(&self, placement: Placement) -> Option<Spread> {
        let rate = |placement: Placement, round: u32| {
            let mut runs = self.runs.iter();
            let run = runs.find(|run| run.placement == placement && run.round == round)?;
            run.best().map(|load| load.mpps)
        };
        let rounds = self.runs.iter().map(|run| run.round).max()? + 1;
        Spread::of((0..rounds).filter_map(|round| Some(rate(placement, round)? / rate(Placement::None, round)?)))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::latency::Distance;

    /// A row with these rates, for two placements in turn.
    pub fn row(path: Between, size: u16, rates: &[[f64; 2]]) -> Row {
        let load = |mpps: f64| Load {
            rate: None,
            sent: 2.0 * mpps,
            mpps,
            packets_a_frame: 16.0,
            frames: mpps / 16.0,
            a: Spent { cycles: 50.0, nanoseconds: 20.0, stages: BTreeMap::new() },
            b: Spent { cycles: 60.0, nanoseconds: 25.0, stages: BTreeMap::new() },
            function: Processed::default(),
            link_cycles: None,
            drops: BTreeMap::new(),
        };
        let run = |round: usize, placement, mpps| Run {
            placement,
            round: round as u32,
            loads: vec![load(mpps / 2.0), load(mpps)],
        };
        let runs = rates.iter().enumerate().flat_map(|(round, &[none, vhost])| {
            [run(round, Placement::None, none), run(round, Placement::Vhost, vhost)]
        });
        Row {
            path,
            size,
            cpus: Cpus::on([1, 0, 0, 1]),
            latency: Some(Latency { nanoseconds: 40.0, distance: Distance::Near }),
            runs: runs.collect(),
        }
    }

    #[test]
    fn the_best_load_counts_and_ratios_are_taken_within_rounds() {
        let row = row(Between::Ovs, 64, &[[1.0, 4.0], [2.0, 6.0], [1.0, 5.0]]);
        assert_eq!(row.spread(Placement::Vhost, |load| load.mpps), Some(Spread { median: 5.0, min: 4.0, max: 6.0 }));
        assert_eq!(row.ratio(Placement::Vhost), Some(Spread { median: 4.0, min: 3.0, max: 5.0 }));
        assert_eq!(row.ratio(Placement::Nf), None);
        assert_eq!(row.placements(), [Placement::None, Placement::Vhost]);
    }
}
