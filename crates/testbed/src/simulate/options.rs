//! Options of simulations.

use super::node::Node;
use super::studies::{Settings, Study};
use clap::Args;
use std::path::PathBuf;

/// Studies, nodes and times of a simulation.
#[derive(Clone, Debug, Args)]
pub struct Simulate {
    /// Studies
    #[arg(long, value_enum, value_delimiter = ',', default_value = "paper,one_node,nodes,traffic,loss,hold,next_hop")]
    pub study: Vec<Study>,
    /// Kinds of nodes
    #[arg(long, value_enum, value_delimiter = ',', default_value = "paper,rings,af_packet")]
    pub node: Vec<Node>,
    /// Simulated seconds; the paper's counts are of one
    #[arg(long, default_value_t = 0.1, value_parser = seconds)]
    pub seconds: f64,
    /// Nodes of the trees of the study `nodes`
    #[arg(long, value_delimiter = ',', default_value = "10,30,100,300,1000", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub nodes: Vec<u32>,
    /// Seed of all random numbers: the same seed gives the same results
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub seed: u32,
    /// Directory of the simulator's sources, which are built with make, g++ and libns3-dev
    #[arg(long, value_name = "DIR", default_value = "sim")]
    pub sources: PathBuf,
    /// Print JSON instead of the tables
    #[arg(long)]
    pub json: bool,
    /// Directory for the results [default: bench/results/DATE-simulation]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl Simulate {
    /// Returns the parameters that all cases share.
    pub fn settings(&self) -> Settings {
        let Simulate { node, nodes, seconds, seed, .. } = self;
        Settings { nodes: node.clone(), trees: nodes.clone(), seconds: *seconds, seed: *seed }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("give a number of seconds from 0.001 to 60".to_owned()),
    }
}
