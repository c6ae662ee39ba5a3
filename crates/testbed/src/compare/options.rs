//! Command line options of a comparison.

use super::choices::{Forward, LoadKind, Peer};
use crate::ring_format::RingFormat;
use clap::Args;
use loadgen::load::TouchLevel;
use std::path::PathBuf;

/// Command lines to begin with.
const EXAMPLES: &str = "Examples:
  testbed compare --quick
  testbed compare --peer ovs --size 64,1514 --label ovs
  testbed compare --forward bridge,patch --size 64 --label bridge
  testbed compare --load wire --forward map,patch --label wire-copy
  testbed compare --load wire --forward map,patch --vxlan --sink --size 64,512,1400 --label vxlan-sink
  testbed compare --forward exchange,patch --touch payload --functions 2,4,8 --label exchange
  testbed compare --peer millrace --against ../other/target/release/millrace";

/// A comparison.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Compare {
    /// Ring formats
    #[arg(long, value_enum, value_delimiter = ',', default_value = "split,packed")]
    pub ring: Vec<RingFormat>,
    /// Bytes of a frame, without its checksum [default: 64,512,1518; with --quick: 64,1518]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(60..=9216))]
    pub size: Vec<u16>,
    /// Part of every frame that the load touches [default: header, and payload at the longest size]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub touch: Vec<TouchLevel>,
    /// Functions in a chain, the ends included: the load is all of them, with a switch between each two
    #[arg(long, value_delimiter = ',', default_value = "2", value_parser = clap::value_parser!(u16).range(2..=32))]
    pub functions: Vec<u16>,
    /// Ways for Millrace to join its ports: one is compared with a peer, two with each other. `map` and `bridge-map` are
    /// for `--load wire` and `null`, `exchange` and `bridge-exchange` for `--load testbed`
    #[arg(long, value_enum, value_delimiter = ',', default_value = "patch")]
    pub forward: Vec<Forward>,
    /// The other switch, if --forward names one way [default: testpmd]
    #[arg(long, value_enum)]
    pub peer: Option<Peer>,
    /// Program that sends the frames and takes them back
    #[arg(long, value_enum, default_value_t = LoadKind::Testbed)]
    pub load: LoadKind,
    /// The wire's frames come and go inside VXLAN, and the switch's port is the end of the tunnel: for `--load wire` and ways of
    /// Millrace. Sizes are those of the frames inside
    #[arg(long)]
    pub vxlan: bool,
    /// The wire's function keeps the frames that it gets: for `--load wire`
    #[arg(long)]
    pub sink: bool,
    /// Measurements of each switch in each scenario [default: 3; with --quick: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Seconds of each measurement [default: 2; with --quick: 0.5]
    #[arg(long, value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Seconds to run before each measurement [default: 0.5; with --quick: 0.2]
    #[arg(long, value_parser = seconds)]
    pub warmup: Option<f64>,
    /// One short round, for a first impression
    #[arg(long)]
    pub quick: bool,
    /// The Millrace program [default: the one next to this program]
    #[arg(long, value_name = "PATH")]
    pub millrace: Option<PathBuf>,
    /// Program of `--peer millrace`: another build, to see the cost of a change
    #[arg(long, value_name = "PATH")]
    pub against: Option<PathBuf>,
    /// Processor of the switch
    #[arg(long, value_name = "CPU", default_value_t = 0)]
    pub switch_cpu: usize,
    /// Processor of the load
    #[arg(long, value_name = "CPU", default_value_t = 1)]
    pub load_cpu: usize,
    /// Directory for the results [default: bench/results/DATE-LABEL]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Name of the results: the last part of the default directory's name
    #[arg(long, default_value = "compare")]
    pub label: String,
}

impl Compare {
    /// Returns the frame sizes.
    pub fn sizes(&self) -> Vec<u16> {
        match (self.size.is_empty(), self.quick) {
            (false, _) => self.size.clone(),
            (true, false) => vec![64, 512, 1518],
            (true, true) => vec![64, 1518],
        }
    }

    /// Returns the number of rounds.
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 })
    }

    /// Returns the seconds of each measurement.
    pub fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 0.5 } else { 2.0 })
    }

    /// Returns the seconds of warm-up.
    pub fn warmup(&self) -> f64 {
        self.warmup.unwrap_or(if self.quick { 0.2 } else { 0.5 })
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give a number of seconds from 0.1 to 3600".to_owned()),
    }
}
