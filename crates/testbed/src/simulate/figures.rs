//! Figures of a case: what left on the links of each stage without aggregation and with it.

use super::case::Case;
use super::counts::{Counts, LinkCounts, NodeCounts};
use super::node::Node;
use super::studies::Study;
use super::topology::{Kind, Network};
use super::traffic::{Arrivals, Sizes};
use crate::record::rounded;
use serde::Serialize;

/// A row of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub study: Study,
    pub topology: Kind,
    pub node: Node,
    pub arrivals: Arrivals,
    pub sizes: Sizes,
    /// Packets a second of each node with sources.
    pub pps: f64,
    pub by_chain: bool,
    pub loss: f64,
    pub delay_us: f64,
    pub hold_us: f64,
    pub sent: u64,
    pub stages: Vec<Stage>,
    pub without: Whole,
    pub with: Whole,
}

/// All links of a stage; in the study of the paper only the first one, as the paper has no figures of the others.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    pub name: String,
    pub without: Passed,
    pub with: Passed,
    /// Frames saved, in percent of those on the same links without aggregation.
    pub saved_percent: f64,
    /// Packets in a frame, on average.
    pub held: f64,
    /// Cycles of a packet at a node of the stage, without aggregation and with it; zeros for the paper's node.
    pub cycles: [f64; 2],
}

/// What left on links until the sources ended.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Passed {
    pub frames: u64,
    pub packets: u64,
    /// Bytes of a frame, on average.
    pub bytes: f64,
    /// Most packets in a frame.
    pub most: u32,
}

/// The network as a whole, in one of the two ways.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Whole {
    /// Cycles of the nodes for a packet at a node.
    pub cycles: f64,
    /// Packets that waited when the sources ended: many, if a node can't do more.
    pub waiting: u64,
    pub lost: u64,
    /// Lost frames, in which these packets were.
    pub lost_frames: u64,
    pub mean_us: f64,
    pub p99_us: f64,
}

/// Returns the cycles of a packet at these nodes.
fn cycles_of<'n>(nodes: impl Iterator<Item = &'n NodeCounts>) -> f64 {
    let (cycles, packets) =
        nodes.fold((0, 0), |(cycles, packets), node| (cycles + node.cycles, packets + node.packets));
    (cycles as f64 / packets.max(1) as f64).round()
}

impl Passed {
    fn of<'l>(links: impl Iterator<Item = &'l LinkCounts>) -> Passed {
        let (mut passed, mut bytes) = (Passed::default(), 0);
        for link in links {
            passed.frames += link.frames;
            passed.packets += link.packets;
            passed.most = passed.most.max(link.held.last().map_or(0, |&(packets, _)| packets));
            bytes += link.bytes;
        }
        passed.bytes = rounded(bytes as f64 / passed.frames.max(1) as f64, 1);
        passed
    }

    /// Returns the frames in percent of the packets.
    pub fn percent(self) -> f64 {
        100.0 * self.frames as f64 / self.packets.max(1) as f64
    }
}

impl Whole {
    fn of(counts: &Counts) -> Whole {
        Whole {
            cycles: cycles_of(counts.nodes.iter()),
            waiting: counts.nodes.iter().map(|node| node.waiting).sum(),
            lost: counts.lost,
            lost_frames: counts.links.iter().map(|link| link.lost_frames).sum(),
            mean_us: rounded(counts.time_us.mean, 2),
            p99_us: rounded(counts.time_us.p99, 1),
        }
    }
}

impl Row {
    /// Computes a row from the counts of both ways.
    pub fn new(study: Study, case: &Case, network: &Network, all: [&Counts; 2]) -> Row {
        let [without, with] = all;
        let Case { topology, node, traffic, by_chain, loss, delay_us, hold_us, .. } = *case;
        let stage = |(number, name): (usize, &String)| {
            // The simulator has links and nodes in the order of the network.
            let shown = if study == Study::Paper { 1 } else { usize::MAX };
            let passed = |counts: &Counts| {
                let of_stage = network.links.iter().zip(&counts.links).filter(|(link, _)| link.stage == number);
                Passed::of(of_stage.map(|(_, counts)| counts).take(shown))
            };
            let is_of = |node: &String| network.links.iter().any(|link| link.stage == number && link.from == *node);
            let cycles = |counts: &Counts| {
                let nodes =
                    network.nodes.iter().zip(&counts.nodes).filter(|(node, _)| is_of(node)).map(|(_, counts)| counts);
                cycles_of(nodes)
            };
            let [without, with] = [passed(without), passed(with)];
            let left = with.frames as f64 / without.frames.max(1) as f64;
            let held = rounded(with.packets as f64 / with.frames.max(1) as f64, 2);
            let saved_percent = rounded(100.0 * (1.0 - left), 1);
            let cycles = all.map(cycles);
            Stage { name: name.clone(), without, with, saved_percent, held, cycles }
        };
        Row {
            study,
            topology,
            node,
            arrivals: traffic.arrivals,
            sizes: traffic.sizes,
            pps: traffic.pps.round(),
            by_chain,
            loss,
            delay_us,
            hold_us,
            sent: with.sent,
            stages: network.stages.iter().enumerate().map(stage).collect(),
            without: Whole::of(without),
            with: Whole::of(with),
        }
    }

    /// Returns the last stage, before the sink.
    pub fn last(&self) -> &Stage {
        self.stages.last().expect("a network has a stage")
    }

    /// Returns the frames saved on all links, in percent.
    pub fn saved_percent(&self) -> f64 {
        let frames = |of: fn(&Stage) -> Passed| self.stages.iter().map(|stage| of(stage).frames).sum::<u64>() as f64;
        100.0 * (1.0 - frames(|stage| stage.with) / frames(|stage| stage.without).max(1.0))
    }
}
