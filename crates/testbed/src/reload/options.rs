//! Options of a measurement.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Options of a measurement.
#[derive(Clone, Debug, Args)]
pub struct Reload {
    /// Changes to make
    #[arg(long, value_enum, value_delimiter = ',', default_value = "none,same,one,all")]
    pub changes: Vec<Changes>,
    /// Ports beside the one that is watched
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub ports: u32,
    /// Reloads in each measurement
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub reloads: u32,
    /// Measurements of each program and kind of change, in turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// The Millrace program [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    pub millrace: Option<PathBuf>,
    /// Another Millrace program to compare with
    #[arg(long, value_name = "PATH")]
    pub against: Option<PathBuf>,
    /// Processor of the worker
    #[arg(long, value_name = "CPU", default_value_t = 1)]
    pub worker_cpu: usize,
    /// Processor of the rest of the switch
    #[arg(long, value_name = "CPU", default_value_t = 0)]
    pub control_cpu: usize,
    /// Print the results as JSON, and not as a table
    #[arg(long)]
    pub json: bool,
    /// Directory for the results [default: bench/results/DATE-reload]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Changes beside a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Changes {
    /// No reload: pauses of the same length.
    None,
    /// Reloads of an unchanged file.
    Same,
    /// A bridge of all ports gets one more, and loses it again.
    One,
    /// All ports are added, and removed again.
    All,
}

impl Changes {
    /// Returns a description for tables.
    pub fn name(self, ports: u32) -> String {
        match self {
            Changes::None => format!("nothing changes ({ports} ports)"),
            Changes::Same => format!("the same file again ({ports} ports)"),
            Changes::One => format!("one port comes or goes ({ports} others)"),
            Changes::All => format!("{ports} ports come or go"),
        }
    }
}
