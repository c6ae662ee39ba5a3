//! What is measured, as told on the command line.

use crate::aggregation::rig::{Between, Placement, Programs};
use clap::Args;
use std::path::PathBuf;

/// How much gets through, by packet size.
#[derive(Clone, Debug, Args)]
pub struct Throughput {
    /// What is between the nodes
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["af_packet", "af_xdp", "rings", "ovs", "testpmd"])]
    pub path: Vec<Between>,
    /// Bytes of a packet, without its checksum
    #[arg(long, value_delimiter = ',', default_values = ["64", "128", "256", "512", "1024", "1498"],
        value_parser = clap::value_parser!(u16).range(60..=1514))]
    pub sizes: Vec<u16>,
    /// Where packets are split and joined
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["none", "vhost", "nf", "native"])]
    pub placement: Vec<Placement>,
    /// Measurements of each placement, in turn with the others
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Seconds of each measurement at one load
    #[arg(long, default_value_t = 0.25, value_parser = seconds)]
    pub seconds: f64,
    #[command(flatten)]
    pub programs: Programs,
    /// Directory for the results [default: bench/results/DATE-aggregation-throughput]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the results as JSON, and not as a table
    #[arg(long)]
    pub json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give a number of seconds from 0.05 to 600".to_owned()),
    }
}
