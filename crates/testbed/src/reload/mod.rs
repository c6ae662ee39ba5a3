//! How long the frames of a port wait while the configuration of the switch changes beside it.
//!
//! One worker has a processor of its own, and moves frames from a generator into a capture file: the longest time between two of
//! them is the longest that the worker made no round. The control side has the other processor.

mod error;
mod figure;
mod measure;
mod options;
mod show;

pub use error::ReloadError;
pub use options::Reload;

use crate::latency::{self, Latency};
use crate::machine::Machine;
use crate::record::{Record, free_directory, rounded};
use figure::{Figure, Program};
use lab::process::Interrupt;
use measure::Measured;
use std::time::Duration;

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
                let ms = |time: Duration| rounded(time.as_secs_f64() * 1e3, 3);
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
