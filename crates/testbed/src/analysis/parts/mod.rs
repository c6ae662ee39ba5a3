//! The time of each part of the data path on a processor of its own, after the paper's figures 8, 11 and 12 and its table IV.
//!
//! The paper has a processor for each part. Two processors suffice to measure the same, if the parts take turns: the part
//! in question works alone on one of them, and all others share the other one. So it finds in its caches what it would
//! find with a processor each. The slowest part limits the rate of such a pipeline. The difference to all parts on one
//! processor is the cost of cache lines that move between processors.

mod error;
mod found;
mod measure;
mod show;

use super::pattern::Pattern;
use super::setup::{Setup, sizes};
use super::turns::{Processors, Timed};
use crate::analysis::found::Found;
use crate::latency;
use crate::machine::Machine;
use crate::record::free_directory;
use crate::ring_format::RingFormat;
use crate::statistics::Spread;
use crate::transfer;
use clap::Args;
use found::Figure;
use loadgen::load::{MAX_SIZE, MIN_SIZE, TouchLevel};
use loadgen::wire::queue_sizes;
use measure::Part;
use std::path::PathBuf;
use vhost_user::frontend::QueueSizes;

pub use error::PartsError;

/// Which parts, under which conditions.
#[derive(Clone, Debug, Args)]
pub struct Parts {
    /// Copy patterns
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["a", "e", "g"])]
    pub pattern: Vec<Pattern>,
    /// Ring formats
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["split", "packed"])]
    pub ring: Vec<RingFormat>,
    /// Bytes of a frame, without its checksum
    #[arg(long, value_delimiter = ',', default_values = ["64", "128", "256", "512", "1024", "1280", "1514"],
          value_parser = clap::value_parser!(u16).range(i64::from(MIN_SIZE)..=i64::from(MAX_SIZE)))]
    pub size: Vec<u16>,
    /// Descriptors of the rings between NIC and switch
    #[arg(long, value_name = "RX[:TX]", default_value = "512:1024", value_parser = queue_sizes)]
    pub physical: QueueSizes,
    /// Descriptors of the rings between switch and network function
    #[arg(long, value_name = "RX[:TX]", value_delimiter = ',', default_values = ["1024:256"], value_parser = queue_sizes)]
    pub r#virtual: Vec<QueueSizes>,
    /// Part of every frame that the network function touches, and the NIC reads
    #[arg(long, value_enum, value_delimiter = ',', default_value = "header")]
    pub touch: Vec<TouchLevel>,
    /// Measurements of each point
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Turns of each measurement, of up to 256 frames
    #[arg(long, default_value_t = 200)]
    pub turns: usize,
    /// Processor of the part that is measured
    #[arg(long, value_name = "CPU", default_value_t = 0)]
    pub part_cpu: usize,
    /// Processor of all other parts
    #[arg(long, value_name = "CPU", default_value_t = 1)]
    pub others_cpu: usize,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// Directory for the results [default: bench/results/DATE-parts]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Parts that have a processor each in the paper.
const PIPELINE: [Part; 3] = [Part::Receive, Part::Function, Part::Transmit];

/// Measures, and writes the results.
pub fn run(parts: &Parts) -> Result<(), PartsError> {
    let rig = Machine::detect(&std::env::current_exe().unwrap_or_default());
    let line_cycles = transfer::between(parts.part_cpu, parts.others_cpu)?;
    let mut found = Found { rig, line_cycles, figures: Vec::new() };
    let setups = setups(parts);
    for (number, setup) in setups.iter().enumerate() {
        let Setup { pattern, ring, size, touch, guest, .. } = setup;
        eprintln!("[{}/{}] {pattern}, {ring}, {size} B, {touch}, {}", number + 1, setups.len(), sizes(*guest));
        found.figures.push(figure(parts, setup)?);
    }
    let (text, record) = (show::text(&found), show::record(&found));
    print!("{}", if parts.json { record.text() } else { text.clone() });
    let directory = parts.out.clone().unwrap_or_else(|| free_directory(&found.rig, "parts"));
    record.write(&directory, &[("table.txt", &text), ("chart.svg", &show::chart(&found, &parts.size))])?;
    eprintln!("results in {}", directory.display());
    Ok(())
}

fn setups(parts: &Parts) -> Vec<Setup> {
    let physical = parts.physical;
    let mut setups = Vec::new();
    for &touch in &parts.touch {
        for &size in &parts.size {
            for &ring in &parts.ring {
                for &guest in &parts.r#virtual {
                    let setup = |&pattern: &Pattern| Setup { pattern, ring, size, touch, physical, guest };
                    setups.extend(parts.pattern.iter().map(setup));
                }
            }
        }
    }
    setups
}

/// Measures one setup in all rounds.
fn figure(parts: &Parts, setup: &Setup) -> Result<Figure, PartsError> {
    let failed = |source| PartsError::Turn { pattern: setup.pattern, ring: setup.ring, size: setup.size, source };
    let processors = Processors { alone: parts.part_cpu, others: parts.others_cpu };
    let latency = latency::between(processors.alone, processors.others)?;
    let mut alone = PIPELINE.map(|_| Vec::new());
    let mut together = PIPELINE.map(|_| Vec::new());
    let mut without_switch = Vec::new();
    let measured =
        |has_switch, alone| measure::measure(setup, has_switch, alone, processors, parts.turns).map_err(failed);
    for _ in 0..parts.rounds {
        let all = measured(true, None)?;
        for (index, part) in PIPELINE.into_iter().enumerate() {
            alone[index].push(measured(true, Some(part))?[part as usize]);
            together[index].push(all[part as usize]);
        }
        without_switch.push(measured(false, Some(Part::Function))?[Part::Function as usize]);
    }
    let median = |figures: &Vec<f64>| Spread::of(figures.iter().copied()).map_or(0.0, |spread| spread.median);
    let timed =
        |index: usize| (PIPELINE[index], Timed { alone: median(&alone[index]), together: median(&together[index]) });
    Ok(Figure { setup: *setup, latency, parts: [0, 1, 2].map(timed), without_switch: median(&without_switch) })
}
