//! How many ports a switch can have: the time of calls that add and remove them, memory, and what ports cost that have no frames.

mod calls;
mod error;
mod figure;
mod guests;
mod options;
mod rounds;
mod show;
mod subject;

pub use error::PortsError;
pub use options::Ports;

use crate::latency;
use crate::machine::Machine;
use crate::record::{Record, free_directory};
use figure::Figure;
use lab::dpdk::Pages;
use lab::ovs::Build;
use lab::process::Interrupt;
use options::Subject;
use subject::Program;

/// Measures and prints.
pub fn run(options: &Ports) -> Result<(), PortsError> {
    let (programs, missing) = Program::all(options)?;
    let interrupt = Interrupt::install()?;
    let cores = latency::between(options.control_cpu, options.worker_cpu)?;
    // Guests and callers are threads and children of this one.
    loadgen::cpu::pin(options.control_cpu)?;
    let millrace = crate::millrace::program(options.millrace.as_deref())?;
    let mut machine = Machine::detect(&millrace);
    if programs.iter().any(|program| matches!(program, Program::Ovs)) {
        machine.dpdk = Build::Dpdk.available(Pages::Huge).ok();
    }
    let mut figures = Vec::new();
    for subject in &options.measure {
        match subject {
            Subject::Calls => {
                figures.extend(calls::measure(options, &programs, &interrupt)?.into_iter().map(Figure::Calls));
            }
            Subject::Guests => {
                figures.extend(guests::measure(options, &programs, &interrupt)?.into_iter().map(Figure::Guests));
            }
            Subject::Rounds => {
                let rows = rounds::measure(options, &programs, machine.tsc_ghz, &interrupt)?;
                figures.extend(rows.into_iter().map(Figure::Rounds));
            }
        }
    }
    let record = Record::new(&machine, missing.as_slice(), figures).with_cores([cores]);
    let table = show::table(&record);
    print!("{}", if options.json { record.text() } else { table.clone() });
    let directory = options.out.clone().unwrap_or_else(|| free_directory(&machine, "ports"));
    let chart = show::chart(&record);
    let mut files = vec![("table.txt", table.as_str())];
    files.extend(chart.as_deref().map(|chart| ("chart.svg", chart)));
    record.write(&directory, &files)?;
    eprintln!("results in {}", directory.display());
    Ok(())
}
