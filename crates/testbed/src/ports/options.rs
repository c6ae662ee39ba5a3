//! Options of a measurement.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Options of a measurement.
#[derive(Clone, Debug, Args)]
pub struct Ports {
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', default_value = "calls,guests,rounds")]
    pub measure: Vec<Subject>,
    /// Ports that are added and removed by calls
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    pub ports: u32,
    /// Ports with guests
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub guests: u32,
    /// Measurements of each, in turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// The Millrace program [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    pub millrace: Option<PathBuf>,
    /// Another Millrace program to compare with, besides Open vSwitch
    #[arg(long, value_name = "PATH")]
    pub against: Option<PathBuf>,
    /// Processor that forwards
    #[arg(long, value_name = "CPU", default_value_t = 1)]
    pub worker_cpu: usize,
    /// Processor of all else
    #[arg(long, value_name = "CPU", default_value_t = 0)]
    pub control_cpu: usize,
    /// Print the results as JSON, and not as tables
    #[arg(long)]
    pub json: bool,
    /// Directory for the results [default: bench/results/DATE-ports]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Subject {
    /// The time of calls that add and remove ports, while a pair of guests exchanges frames.
    Calls,
    /// The time of a start, and memory, with a guest at each port.
    Guests,
    /// The time by which a port that has no frames makes a round longer.
    Rounds,
}
