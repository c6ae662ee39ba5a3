//! Studies: the paper's two networks, and others.

use super::case::Case;
use super::node::Node;
use super::topology::Kind;
use super::traffic::{Arrivals, Sizes, Traffic};
use clap::ValueEnum;
use serde::Serialize;
use std::fmt;

/// A study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Study {
    /// The paper's two topologies with its traffic, for its node and for Millrace
    Paper,
    /// One node of Millrace by rate, as `testbed aggregation ratio` measures it
    OneNode,
    /// Trees of more and more nodes, with the same traffic in all
    Nodes,
    /// Smooth, random and bursty sources, with short packets and with an Internet mix
    Traffic,
    /// Links that lose frames, and longer links
    Loss,
    /// Packets that are held for others
    Hold,
    /// Next hops packet by packet, and chain by chain
    NextHop,
}

impl fmt::Display for Study {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().expect("no study is hidden").get_name())
    }
}

/// Packets a second of a first node in topology I and in topology II, on average. The paper does not say; these are its counts on
/// link (A)-(1) without aggregation, if they are of one second, and three times that where a node has three next hops.
const PAPER_PPS: [f64; 2] = [1_571_032.0, 3.0 * 1_282_443.0];

/// Packets a second that reach the sink in all other networks: so few that Millrace carries them without aggregation.
const TOTAL_PPS: f64 = 0.8e6;

/// A tree that small studies use.
const TREE: Kind = Kind::Tree(21);

/// Properties that all cases have in common.
#[derive(Clone, Debug)]
pub struct Settings {
    pub nodes: Vec<Node>,
    pub trees: Vec<u32>,
    pub seconds: f64,
    pub seed: u32,
}

impl Settings {
    fn case(&self, topology: Kind, node: Node, traffic: Traffic) -> Case {
        let Settings { seconds, seed, .. } = *self;
        Case { topology, node, traffic, by_chain: false, loss: 0.0, delay_us: 1.0, hold_us: 0.0, seconds, seed }
    }

    /// Returns a case of a network in which all sources together send [`TOTAL_PPS`].
    fn shared(&self, topology: Kind, node: Node, arrivals: Arrivals, sizes: Sizes) -> Case {
        let entries = super::topology::Network::of(topology).entries.len();
        self.case(topology, node, Traffic { arrivals, sizes, pps: TOTAL_PPS / entries as f64, sources: 1 })
    }

    /// Returns the nodes of Millrace among those asked for.
    fn own(&self) -> impl Iterator<Item = Node> {
        self.nodes.iter().copied().filter(|&node| node != Node::Paper)
    }

    /// Returns the cases of a study.
    pub fn cases(&self, study: Study) -> Vec<Case> {
        let short = Sizes::Short;
        match study {
            Study::Paper => [(Kind::Converging, PAPER_PPS[0], 1), (Kind::Branching, PAPER_PPS[1], 4)]
                .into_iter()
                .flat_map(|(topology, pps, sources)| {
                    let traffic = Traffic { arrivals: Arrivals::OnOff, sizes: short, pps, sources };
                    self.nodes.iter().map(move |&node| self.case(topology, node, traffic))
                })
                .collect(),
            Study::OneNode => self
                .own()
                .flat_map(|node| {
                    let rates = [0.1e6, 1e6, 2e6, 4e6, 6e6];
                    rates.map(|pps| {
                        let traffic = Traffic { arrivals: Arrivals::Smooth, sizes: short, pps, sources: 1 };
                        Case { seconds: self.seconds / 5.0, ..self.case(Kind::One, node, traffic) }
                    })
                })
                .collect(),
            Study::Nodes => {
                let of =
                    |&nodes| self.nodes.iter().map(move |&n| self.shared(Kind::Tree(nodes), n, Arrivals::OnOff, short));
                self.trees.iter().flat_map(of).collect()
            }
            Study::Traffic => {
                let all = [Arrivals::Smooth, Arrivals::Poisson, Arrivals::OnOff, Arrivals::Trains(32)];
                let both = |arrivals| [short, Sizes::Imix].map(|sizes| (arrivals, sizes));
                let of =
                    |(arrivals, sizes)| self.nodes.iter().map(move |&node| self.shared(TREE, node, arrivals, sizes));
                all.into_iter().flat_map(both).flat_map(of).collect()
            }
            Study::Loss => {
                let links = [(0.0001, 1.0), (0.001, 1.0), (0.01, 1.0), (0.001, 100.0)];
                let of = |(loss, delay_us)| {
                    let case = move |node| self.shared(TREE, node, Arrivals::Trains(32), short);
                    self.nodes.iter().map(move |&node| Case { loss, delay_us, ..case(node) })
                };
                links.into_iter().flat_map(of).collect()
            }
            Study::Hold => {
                let of = |hold_us| {
                    self.own().map(move |n| Case { hold_us, ..self.shared(TREE, n, Arrivals::Poisson, short) })
                };
                [0.0, 5.0, 20.0, 50.0, 100.0].into_iter().flat_map(of).collect()
            }
            Study::NextHop => {
                let pps = TOTAL_PPS;
                // A chain for each of three next hops.
                let traffic = Traffic { arrivals: Arrivals::OnOff, sizes: short, pps, sources: 3 };
                let of =
                    |by_chain| self.own().map(move |n| Case { by_chain, ..self.case(Kind::Branching, n, traffic) });
                [false, true].into_iter().flat_map(of).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::topology::Network;

    #[test]
    fn all_cases_of_a_network_send_as_much() {
        let nodes = vec![Node::Paper, Node::AfPacket];
        let settings = Settings { nodes, trees: vec![10, 1000], seconds: 0.1, seed: 1 };
        for study in [Study::Nodes, Study::Traffic, Study::Loss, Study::Hold] {
            for case in settings.cases(study) {
                let total = case.traffic.pps * Network::of(case.topology).entries.len() as f64;
                assert!((total - TOTAL_PPS).abs() < 1.0, "{case}: {total}");
            }
        }
        assert_eq!(settings.cases(Study::Paper).len(), 4);
        assert!(settings.cases(Study::OneNode).iter().all(|case| case.node == Node::AfPacket));
    }
}
