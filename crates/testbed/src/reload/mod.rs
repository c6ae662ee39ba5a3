//! How long the frames of a port wait while the configuration of the switch changes beside it.
//!
//! One worker has a processor of its own, and moves frames from a generator into a capture file: the longest time between two of
//! them is the longest that the worker made no round. The control side has the other processor.

mod measure;
mod show;

use crate::latency::{self, Latency};
use crate::machine::Machine;
use crate::millrace::MillraceError;
use crate::record::{Record, RecordError, free_directory, rounded};
use clap::{Args, ValueEnum};
use lab::process::Interrupt;
use loadgen::cpu::PinError;
use measure::Measured;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What to measure.
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
    fn name(self, ports: u32) -> String {
        match self {
            Changes::None => format!("nothing changes ({ports} ports)"),
            Changes::Same => format!("the same file again ({ports} ports)"),
            Changes::One => format!("one port comes or goes ({ports} others)"),
            Changes::All => format!("{ports} ports come or go"),
        }
    }
}

/// Error of a measurement.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ReloadError {
    #[error(transparent)]
    Millrace(#[from] MillraceError),
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error("the capture of the switch can't be read: {0}")]
    Capture(#[from] capture::Error),
    #[error("{action}: {source}")]
    System { action: &'static str, source: std::io::Error },
    #[error("the watched port has too few frames: {0}")]
    Silent(usize),
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// One program under one kind of change: a figure for each round.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Figure {
    changes: Changes,
    ports: u32,
    program: Program,
    /// Time from the start of the program until it answers.
    start_ms: Vec<f64>,
    /// Longest time between two frames.
    gap_ms: Vec<f64>,
    /// Median time of a reload.
    reload_ms: Vec<f64>,
}

/// One of the two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Program {
    New,
    Against,
}

/// Measures and prints.
pub fn run(options: &Reload) -> Result<(), ReloadError> {
    let mut programs = vec![(Program::New, crate::millrace::program(options.millrace.as_deref())?)];
    if let Some(against) = &options.against {
        programs.push((Program::Against, crate::millrace::program(Some(against))?));
    }
    let interrupt = Interrupt::install()?;
    let cores: Latency = latency::between(options.control_cpu, options.worker_cpu)?;
    let mut figures = Vec::new();
    for &changes in &options.changes {
        let of = |&(program, _): &(Program, _)| Figure {
            changes,
            ports: options.ports,
            program,
            start_ms: Vec::new(),
            gap_ms: Vec::new(),
            reload_ms: Vec::new(),
        };
        let mut rows: Vec<Figure> = programs.iter().map(of).collect();
        for round in 0..options.rounds {
            for ((_, path), row) in programs.iter().zip(&mut rows) {
                eprintln!("{}, round {}/{}: {:?}", changes.name(options.ports), round + 1, options.rounds, row.program);
                let Measured { start, gap, reload } = measure::measure(options, path, changes, &interrupt)?;
                let ms = |time: std::time::Duration| rounded(time.as_secs_f64() * 1e3, 3);
                row.start_ms.push(ms(start));
                row.gap_ms.push(ms(gap));
                row.reload_ms.push(ms(reload));
            }
        }
        figures.extend(rows);
    }
    let machine = Machine::detect(&programs[0].1);
    let notes = [format!(
        "{} reloads in each round; times until the start, gaps and median times of reloads in ms, by round",
        options.reloads
    )];
    let record = Record::new(&machine, &notes, figures).with_cores([cores]);
    let (table, chart) = (show::table(&record), show::chart(&record));
    print!("{}", if options.json { record.text() } else { table.clone() });
    let directory = options.out.clone().unwrap_or_else(|| free_directory(&machine, "reload"));
    record.write(&directory, &[("table.txt", &table), ("chart.svg", &chart)])?;
    eprintln!("results in {}", directory.display());
    Ok(())
}
