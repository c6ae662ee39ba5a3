//! The time of each part of the way between two functions on a processor of its own, with copies and with buffers that are
//! exchanged.
//!
//! Where both functions share a processor, its caches have what they send to each other: a frame that is exchanged moves between
//! no processors, and one that is copied moves twice. Here each function finds what it would find with a processor of its own, as
//! the parts take turns: one works alone on one of two processors, and all others share the other one. The slowest part limits the
//! rate of three processors, one for each function and one for the switch.

mod found;
mod measure;
mod rig;
mod setup;
mod show;

use super::turns::{Processors, Timed, TurnError};
use crate::analysis::found::Found;
use crate::latency;
use crate::machine::Machine;
use crate::record::{RecordError, free_directory};
use crate::ring_format::RingFormat;
use crate::statistics::Spread;
use crate::transfer;
use clap::Args;
use found::{Figure, Parts};
use loadgen::cpu::PinError;
use loadgen::load::{MAX_SIZE, MIN_SIZE, TouchLevel};
use measure::{Cycles, Part};
use setup::{Setup, Way};
use std::path::PathBuf;

/// Conditions of the analysis.
#[derive(Clone, Debug, Args)]
pub struct ExchangeParts {
    /// Ring formats
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["split", "packed"])]
    pub ring: Vec<RingFormat>,
    /// Bytes of a frame, without its checksum
    #[arg(long, value_delimiter = ',', default_values = ["64", "512", "1518", "4096", "9014"],
          value_parser = clap::value_parser!(u16).range(i64::from(MIN_SIZE)..=i64::from(MAX_SIZE)))]
    pub size: Vec<u16>,
    /// Part of every frame that the functions write and read
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["header", "payload"])]
    pub touch: Vec<TouchLevel>,
    /// Measurements of each point
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Turns of each measurement, of 256 frames each way
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub turns: u32,
    /// Processor of the part that is measured
    #[arg(long, value_name = "CPU", default_value_t = 0)]
    pub part_cpu: usize,
    /// Processor of all other parts
    #[arg(long, value_name = "CPU", default_value_t = 1)]
    pub others_cpu: usize,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// Directory for the results [default: bench/results/DATE-exchange-parts]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Error of the analysis.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ExchangePartsError {
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error("{point}: {source}")]
    Turn { point: String, source: TurnError },
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Measures, and writes the results.
pub fn run(options: &ExchangeParts) -> Result<(), ExchangePartsError> {
    let rig = Machine::detect(&std::env::current_exe().unwrap_or_default());
    let line_cycles = transfer::between(options.part_cpu, options.others_cpu)?;
    let mut found = Found { rig, line_cycles, figures: Vec::new() };
    let setups = setups(options);
    for (number, setup) in setups.iter().enumerate() {
        eprintln!("[{}/{}] {setup}", number + 1, setups.len());
        found.figures.push(figure(options, setup)?);
    }
    let (text, record) = (show::text(&found), show::record(&found));
    print!("{}", if options.json { record.text() } else { text.clone() });
    let directory = options.out.clone().unwrap_or_else(|| free_directory(&found.rig, "exchange-parts"));
    record.write(&directory, &[("table.txt", &text), ("chart.svg", &show::chart(&found, &options.size))])?;
    eprintln!("results in {}", directory.display());
    Ok(())
}

fn setups(options: &ExchangeParts) -> Vec<Setup> {
    let mut setups = Vec::new();
    for &touch in &options.touch {
        for &ring in &options.ring {
            setups.extend(options.size.iter().map(|&size| Setup { ring, size, touch }));
        }
    }
    setups
}

/// Measures one setup in all rounds: copies and exchanges in turn.
fn figure(options: &ExchangeParts, setup: &Setup) -> Result<Figure, ExchangePartsError> {
    let processors = Processors { alone: options.part_cpu, others: options.others_cpu };
    let latency = latency::between(processors.alone, processors.others)?;
    let mut samples = Way::ALL.map(|_| [const { Vec::new() }; 4]);
    for _ in 0..options.rounds {
        for (way, samples) in Way::ALL.into_iter().zip(&mut samples) {
            let measured = |alone| {
                measure::measure(setup, way, alone, processors, options.turns as usize)
                    .map_err(|source| ExchangePartsError::Turn { point: format!("{setup}, {way}"), source })
            };
            let Cycles { function, switch } = measured(None)?;
            let figures =
                [measured(Some(Part::Function))?.function, function, measured(Some(Part::Switch))?.switch, switch];
            samples.iter_mut().zip(figures).for_each(|(samples, figure)| samples.push(figure));
        }
    }
    let ways = samples.map(|samples| {
        let median = |samples: Vec<f64>| Spread::of(samples).map_or(0.0, |spread| spread.median);
        let [function, function_together, switch, switch_together] = samples.map(median);
        Parts {
            function: Timed { alone: function, together: function_together },
            switch: Timed { alone: switch, together: switch_together },
        }
    });
    Ok(Figure { setup: *setup, latency, ways })
}
