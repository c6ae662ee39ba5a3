//! Figures of a case: traffic on the links of each stage without aggregation and with it.

use super::case::Case;
use super::counts::{Counts, LinkCounts, NodeCounts};
use super::node::Node;
use super::studies::Study;
use super::topology::{Kind, Link, Network};
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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_chain: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub loss: f64,
    pub delay_us: f64,
    #[serde(skip_serializing_if = "is_zero")]
    pub hold_us: f64,
    pub sent: u64,
    pub stages: Vec<Stage>,
    pub without: Whole,
    pub with: Whole,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// All links of a stage; in the study of the paper only the first one, as the paper has no figures of the others. Pairs are without
/// aggregation and with it, until the sources ended.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    pub name: String,
    pub frames: [u64; 2],
    pub packets: [u64; 2],
    /// Bytes of a frame, on average.
    pub bytes: [f64; 2],
    /// Most packets in a frame.
    pub most: u32,
    /// Cycles of a packet at a node of the stage; zeros for the paper's node.
    pub cycles: [f64; 2],
}

impl Stage {
    /// Sums up the first `shown` links of a stage, and its nodes. The simulator has links and nodes in the order of the network.
    fn new(name: &str, number: usize, shown: usize, network: &Network, all: [&Counts; 2]) -> Stage {
        let is_of = |link: &Link| link.stage == number;
        let links = |counts: &Counts| -> Vec<LinkCounts> {
            let of_stage = network.links.iter().zip(&counts.links).filter(|(link, _)| is_of(link));
            of_stage.map(|(_, counts)| counts.clone()).take(shown).collect()
        };
        let leads_from = |node: &str| network.links.iter().any(|link| is_of(link) && link.from == node);
        let cycles = |counts: &Counts| {
            let nodes = network.nodes.iter().zip(&counts.nodes);
            cycles_of(nodes.filter(|(node, _)| leads_from(node)).map(|(_, counts)| counts))
        };
        let all_links = all.map(links);
        let sums = |of: fn(&LinkCounts) -> u64| all_links.each_ref().map(|links| links.iter().map(of).sum::<u64>());
        let [frames, packets, bytes] = [sums(|link| link.frames), sums(|link| link.packets), sums(|link| link.bytes)];
        let most = all_links[1].iter().filter_map(|link| link.held.last()).map(|&(packets, _)| packets);
        Stage {
            name: name.to_owned(),
            frames,
            packets,
            bytes: [0, 1].map(|way| rounded(bytes[way] as f64 / frames[way].max(1) as f64, 1)),
            most: most.max().unwrap_or(0),
            cycles: all.map(cycles),
        }
    }

    /// Returns the frames saved, in percent of those on the same links without aggregation.
    pub fn saved_percent(&self) -> f64 {
        saved(self.frames)
    }

    /// Returns the packets in a frame with aggregation, on average.
    pub fn held(&self) -> f64 {
        self.packets[1] as f64 / self.frames[1].max(1) as f64
    }
}

fn saved([without, with]: [u64; 2]) -> f64 {
    100.0 * (1.0 - with as f64 / without.max(1) as f64)
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
        let Case { topology, node, traffic, by_chain, loss, delay_us, hold_us, .. } = *case;
        let shown = if study == Study::Paper { 1 } else { usize::MAX };
        let stage = |(number, name): (usize, &String)| Stage::new(name, number, shown, network, all);
        let [without, with] = all.map(Whole::of);
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
            sent: all[1].sent,
            stages: network.stages.iter().enumerate().map(stage).collect(),
            without,
            with,
        }
    }

    /// Returns the last stage, before the sink.
    pub fn last(&self) -> &Stage {
        self.stages.last().expect("a network has a stage")
    }

    /// Returns the frames saved on all links, in percent.
    pub fn saved_percent(&self) -> f64 {
        saved([0, 1].map(|way| self.stages.iter().map(|stage| stage.frames[way]).sum()))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::simulate::studies::Settings;

    /// Returns counts of a run in which each link carried 100 packets, `held` in a frame.
    fn counts(network: &Network, held: u64) -> Counts {
        let frames = 100 / held;
        let link = || LinkCounts {
            frames,
            packets: 100,
            bytes: 640 * frames,
            lost_frames: 0,
            held: vec![(held as u32, frames)],
        };
        let node = || NodeCounts { packets: 100, cycles: 1000 * frames, waiting: 2 };
        let json = r#"{"sent":100,"delivered":100,"lost":0,"time_us":{"mean":1.5,"p99":2.25},"links":[],"nodes":[]}"#;
        Counts {
            links: network.links.iter().map(|_| link()).collect(),
            nodes: network.nodes.iter().map(|_| node()).collect(),
            ..serde_json::from_str(json).unwrap()
        }
    }

    /// Returns a row for each case of a study, in which 4 packets were joined wherever they could be.
    pub fn rows(study: Study) -> Vec<Row> {
        let settings = Settings { nodes: vec![Node::Paper, Node::Rings], trees: vec![10, 21], seconds: 0.1, seed: 1 };
        let row = |case: &Case| {
            let network = Network::of(case.topology);
            Row::new(study, case, &network, [&counts(&network, 1), &counts(&network, 4)])
        };
        settings.cases(study).iter().map(row).collect()
    }

    #[test]
    fn stages_are_sums_of_links_and_of_nodes() {
        let row = &rows(Study::Nodes)[2];
        let stages: Vec<_> =
            row.stages.iter().map(|stage| (stage.name.as_str(), stage.frames, stage.packets[1])).collect();
        assert_eq!(stages, [("level 2", [1600, 400], 1600), ("level 1", [400, 100], 400), ("level 0", [100, 25], 100)]);
        assert_eq!((row.saved_percent(), row.last().held(), row.last().most), (75.0, 4.0, 4));
        assert_eq!((row.last().cycles, row.last().bytes), ([1000.0, 250.0], [640.0, 640.0]));
        assert_eq!((row.without.waiting, row.with.cycles), (42, 250.0));
        // Of the paper's networks, one link of each stage.
        assert!(rows(Study::Paper).iter().flat_map(|row| &row.stages).all(|stage| stage.packets == [100, 100]));
    }
}
