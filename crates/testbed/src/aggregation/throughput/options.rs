//! Command line options of the measurement.

use super::search::Loads;
use crate::aggregation::rig::{Between, Cpus, Placement, Program, Programs};
use clap::Args;
use std::path::PathBuf;

/// How much gets through, by packet size.
#[derive(Clone, Debug, Args)]
pub struct Throughput {
    /// Link between the nodes
    #[arg(long, value_enum, value_delimiter = ',', default_value = "af_packet,af_xdp,rings,ovs,testpmd")]
    pub path: Vec<Between>,
    /// Bytes of a packet, without its checksum
    #[arg(long, value_delimiter = ',', default_value = "64,256,512,1024,1498",
        value_parser = clap::value_parser!(u16).range(60..=1514))]
    pub sizes: Vec<u16>,
    /// The network function
    #[arg(long, value_enum, default_value = "nf-forward")]
    pub function: Program,
    /// Where packets are split and joined [default: none,vhost,nf,native; with testpmd none,vhost,ethdev]
    #[arg(long, value_enum, value_delimiter = ',')]
    placement: Option<Vec<Placement>>,
    /// Measurements of each placement, in turn with the others
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Seconds of each measurement at one load
    #[arg(long, default_value_t = 0.2, value_parser = seconds)]
    pub seconds: f64,
    /// Loads of each measurement
    #[arg(long, value_enum, default_value = "search")]
    pub loads: Loads,
    /// Processors of the two nodes, the network function, and a program between the nodes [default: 1,0,0,1; with a program
    /// between the nodes 0,0,0,1]
    #[arg(long, value_name = "A,B,FUNCTION,LINK", value_parser = cpus)]
    pub cpus: Option<[usize; 4]>,
    #[command(flatten)]
    pub programs: Programs,
    /// Directory for the results [default: bench/results/DATE-aggregation-throughput]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the results as JSON, and not as a table
    #[arg(long)]
    pub json: bool,
}

impl Throughput {
    /// Returns the places where packets are split and joined.
    pub fn placements(&self) -> &[Placement] {
        match (&self.placement, self.function) {
            (Some(placements), _) => placements,
            (None, Program::NfForward) => &[Placement::None, Placement::Vhost, Placement::Nf, Placement::Native],
            (None, Program::Testpmd) => &[Placement::None, Placement::Vhost, Placement::Ethdev],
        }
    }

    /// Returns the processors: the default is for two of them, one of which a program between the nodes has to itself, as it
    /// polls.
    pub fn cpus(&self, path: Between) -> Cpus {
        Cpus::on(self.cpus.unwrap_or(if path.is_program() { [0, 0, 0, 1] } else { [1, 0, 0, 1] }))
    }
}

/// Parses four numbers of processors.
pub fn cpus(text: &str) -> Result<[usize; 4], String> {
    let numbers: Option<Vec<usize>> = text.split(',').map(|number| number.parse().ok()).collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(|| "give four numbers of processors".to_owned())
}

/// Parses a number of seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give a number of seconds from 0.05 to 600".to_owned()),
    }
}
