//! Networks: nodes, and the links between them in stages towards the sink.

use serde::Serialize;
use std::fmt;

/// Nodes that each node of a tree has below it.
const FAN: u32 = 4;

/// A kind of network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A node before the sink.
    One,
    /// Fewer nodes in each stage (PA-Flow Section 6.2, figure 13).
    Converging,
    /// As many nodes in each stage, with links to all of the next one (PA-Flow Section 6.2, figure 14).
    Branching,
    /// A tree of this many nodes, with its root before the sink.
    Tree(u32),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::One => f.pad("one node"),
            Kind::Converging => f.pad("topology I"),
            Kind::Branching => f.pad("topology II"),
            Kind::Tree(nodes) => f.pad(&format!("tree of {nodes}")),
        }
    }
}

/// A link of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub from: String,
    pub to: String,
    /// Number of its stage, as an index into [`Network::stages`].
    pub stage: usize,
}

/// A network.
#[derive(Clone, Debug, Default)]
pub struct Network {
    pub nodes: Vec<String>,
    /// Nodes with sources.
    pub entries: Vec<String>,
    /// Names of the stages, from the sources to the sink.
    pub stages: Vec<String>,
    pub links: Vec<Link>,
}

/// Name of the sink.
pub const SINK: &str = "sink";

impl Network {
    /// Builds a network of this kind.
    pub fn of(kind: Kind) -> Network {
        match kind {
            Kind::One => layers(&[&["A"]], &[]),
            Kind::Converging => layers(
                &[&["A", "B", "C", "D"], &["1", "2"], &["i"]],
                &[("A", "1"), ("B", "1"), ("C", "2"), ("D", "2"), ("1", "i"), ("2", "i")],
            ),
            Kind::Branching => {
                let all: [&[&str]; 3] = [&["A", "B", "C"], &["1", "2", "3"], &["i", "ii", "iii"]];
                let between = all
                    .windows(2)
                    .flat_map(|pair| pair[0].iter().flat_map(|&from| pair[1].iter().map(move |&to| (from, to))));
                layers(&all, &between.collect::<Vec<_>>())
            }
            Kind::Tree(nodes) => tree(nodes),
        }
    }
}

/// Builds a network of layers, of which the last one leads to the sink.
fn layers(all: &[&[&str]], links: &[(&str, &str)]) -> Network {
    let stage_of = |node: &str| all.iter().position(|layer| layer.contains(&node)).expect("the node is in a layer");
    let link = |from: &str, to: &str| Link { from: from.into(), to: to.into(), stage: stage_of(from) };
    let last = all.last().expect("there is a layer");
    let firsts: Vec<&str> = all.iter().map(|layer| layer[0]).chain([SINK]).collect();
    Network {
        nodes: all.concat().into_iter().map(str::to_owned).collect(),
        entries: all[0].iter().map(|&node| node.to_owned()).collect(),
        stages: firsts.windows(2).map(|pair| format!("{}-{}", pair[0], pair[1])).collect(),
        links: links.iter().map(|&(from, to)| link(from, to)).chain(last.iter().map(|from| link(from, SINK))).collect(),
    }
}

/// Builds a tree, level by level from its root, which is node 0. Nodes without others below them have sources.
fn tree(nodes: u32) -> Network {
    let parent = |node: u32| (node - 1) / FAN;
    let level = |node: u32| std::iter::successors(Some(node), |&n| (n > 0).then(|| parent(n))).count() - 1;
    let depth = level(nodes - 1);
    let link = |node: u32| {
        let to = if node == 0 { SINK.to_owned() } else { parent(node).to_string() };
        Link { from: node.to_string(), to, stage: depth - level(node) }
    };
    Network {
        nodes: (0..nodes).map(|node| node.to_string()).collect(),
        entries: (0..nodes).filter(|node| node * FAN + 1 >= nodes).map(|node| node.to_string()).collect(),
        stages: (0..=depth).rev().map(|level| format!("level {level}")).collect(),
        links: (0..nodes).map(link).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_a_way_to_the_sink() {
        let kinds = [Kind::One, Kind::Converging, Kind::Branching, Kind::Tree(1), Kind::Tree(10), Kind::Tree(1000)];
        for network in kinds.map(Network::of) {
            for node in &network.nodes {
                let mut at = node.as_str();
                let mut steps = 0;
                while at != SINK {
                    let link = network.links.iter().find(|link| link.from == at);
                    at = &link.unwrap_or_else(|| panic!("{at} leads nowhere")).to;
                    steps += 1;
                }
                assert!(steps <= network.stages.len(), "{node} takes {steps} links");
            }
            assert!(network.links.iter().all(|link| link.stage < network.stages.len()));
        }
    }

    #[test]
    fn the_papers_networks_have_its_links() {
        let [one, two] = [Kind::Converging, Kind::Branching].map(Network::of);
        assert_eq!(
            (one.nodes.len(), one.links.len(), &one.stages[..]),
            (7, 7, &["A-1", "1-i", "i-sink"].map(String::from)[..])
        );
        assert_eq!((two.nodes.len(), two.links.len(), two.entries.len()), (9, 21, 3));
        let tree = Network::of(Kind::Tree(21));
        assert_eq!((tree.entries.len(), tree.stages.len()), (16, 3));
    }
}
