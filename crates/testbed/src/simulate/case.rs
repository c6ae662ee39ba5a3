//! A case: a network of nodes of one kind with traffic, simulated with and without aggregation.

use super::node::Node;
use super::topology::{Kind, Network, SINK};
use super::traffic::Traffic;
use std::fmt;

/// Microseconds for which an open frame of the paper's node waits for packets that do not come, at the end of a burst.
const PAPER_HOLD: f64 = 10.0;

/// Gigabits a second of a link, as in PA-Flow Section 6.
const LINK: u32 = 40;

/// A case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub topology: Kind,
    pub node: Node,
    pub traffic: Traffic,
    /// Whether a chain has one next hop at a node. By default packets take turns (PA-Flow Section 6.2).
    pub by_chain: bool,
    /// Share of frames that each link loses.
    pub loss: f64,
    /// Microseconds that a frame is on each link.
    pub delay_us: f64,
    /// Microseconds for which Millrace would hold packets; it holds none.
    pub hold_us: f64,
    /// Simulated seconds in which packets are sent.
    pub seconds: f64,
    pub seed: u32,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { topology, node, traffic, .. } = self;
        write!(f, "{topology}, {node}, {}, {}", traffic.arrivals, traffic.sizes)
    }
}

impl Case {
    /// Returns the scenario, for the simulator's standard input.
    pub fn scenario(&self, network: &Network, aggregate: bool) -> String {
        let Case { seed, seconds, delay_us, loss, .. } = self;
        let hold = if self.node == Node::Paper { PAPER_HOLD } else { self.hold_us };
        let next_hop = if self.by_chain { "chain" } else { "packet" };
        let mut text = format!(
            "seed {seed}\nseconds {seconds}\naggregate {}\nnext-hop {next_hop}\nhold-us {hold}\nlink-gbps {LINK}\n\
             delay-us {delay_us}\nloss {loss}\n",
            u8::from(aggregate)
        );
        text += &self.node.lines(aggregate);
        text.extend(network.nodes.iter().map(|node| format!("node {node}\n")));
        text += &format!("sink {SINK}\n");
        text.extend(network.links.iter().map(|link| format!("link {} {}\n", link.from, link.to)));
        text.extend(network.entries.iter().map(|node| self.traffic.lines(node)));
        text
    }
}
