//! Figures of a case: what left on the links of each stage without aggregation and with it.

use super::case::Case;
use super::counts::{Counts, LinkCounts};
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

/// All links of a stage, and the first of them, of which the paper has the figures.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    pub name: String,
    pub without: Passed,
    pub with: Passed,
    pub first_without: Passed,
    pub first_with: Passed,
    /// Frames saved, in percent of those on the same links without aggregation.
    pub saved_percent: f64,
    /// Packets in a frame, on average.
    pub held: f64,
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
        let packets = counts.of_nodes(|node| node.packets);
        Whole {
            cycles: (counts.of_nodes(|node| node.cycles) as f64 / packets.max(1) as f64).round(),
            waiting: counts.of_nodes(|node| node.waiting),
            lost: counts.lost,
            lost_frames: counts.of_links(|link| link.lost_frames),
            mean_us: rounded(counts.time_us.mean, 2),
            p99_us: rounded(counts.time_us.p99, 1),
        }
    }
}

impl Row {
    /// Computes a row from the counts of both ways.
    pub fn new(study: Study, case: &Case, network: &Network, [without, with]: [&Counts; 2]) -> Row {
        let Case { topology, node, traffic, by_chain, loss, delay_us, hold_us, .. } = *case;
        let stage = |(number, name): (usize, &String)| {
            // The simulator has the links in the order of the network.
            let links = |counts: &Counts| -> Vec<LinkCounts> {
                let all = network.links.iter().zip(&counts.links);
                all.filter(|(link, _)| link.stage == number).map(|(_, counts)| counts.clone()).collect()
            };
            let [without, with] = [links(without), links(with)];
            let first = |links: &[LinkCounts]| Passed::of(links.iter().take(1));
            let [first_without, first_with] = [first(&without), first(&with)];
            let [without, with] = [Passed::of(without.iter()), Passed::of(with.iter())];
            let left = with.frames as f64 / without.frames.max(1) as f64;
            let held = rounded(with.packets as f64 / with.frames.max(1) as f64, 2);
            let saved_percent = rounded(100.0 * (1.0 - left), 1);
            Stage { name: name.clone(), without, with, first_without, first_with, saved_percent, held }
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
