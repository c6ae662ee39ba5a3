//! Service chains of many nodes, simulated with ns-3 (`sim/`), after the simulation of Taguchi et al., "Fast Datapath Processing Based
//! on Hop-by-Hop Packet Aggregation for Service Function Chaining": docs/simulation.md.

mod case;
mod chart;
mod counts;
mod error;
mod figures;
mod node;
mod options;
mod program;
mod published;
mod studies;
mod table;
mod topology;
mod traffic;

pub use error::SimulateError;
pub use options::Simulate;

use crate::machine::Machine;
use crate::record::{Record, free_directory};
use figures::Row;
use program::Program;
use topology::Network;

/// Conditions that a reader has to know.
const NOTES: [&str; 2] = [
    "simulated, not measured: docs/simulation.md says which data are from the paper, from measurements, or reconstructed",
    "cycles are at 2.6 GHz, by the costs in docs/measured/aggregation.md",
];

/// Simulates, and writes the results.
pub fn run(options: &Simulate) -> Result<(), SimulateError> {
    let program = Program::build(&options.sources)?;
    let settings = options.settings();
    let cases: Vec<_> = options
        .study
        .iter()
        .flat_map(|&study| settings.cases(study).into_iter().map(move |case| (study, case)))
        .collect();
    let mut rows = Vec::new();
    for (number, (study, case)) in cases.iter().enumerate() {
        eprintln!("{}/{} {study}: {case}", number + 1, cases.len());
        let network = Network::of(case.topology);
        let [without, with] = [false, true].map(|aggregate| program.run(case, &network, aggregate));
        rows.push(Row::new(*study, case, &network, [&without?, &with?]));
    }
    let machine = Machine::detect(&options.sources.join("Makefile"));
    let record = Record::new(&machine, &NOTES.map(str::to_owned), rows);
    let text = table::markdown(&record);
    print!("{}", if options.json { record.text() } else { text.clone() });
    let directory = options.out.clone().unwrap_or_else(|| free_directory(&machine, "simulation"));
    let charts = chart::all(&record);
    let files: Vec<(&str, &str)> =
        charts.iter().map(|(name, chart)| (*name, chart.as_str())).chain([("table.md", text.as_str())]).collect();
    record.write(&directory, &files)?;
    eprintln!("results in {}", directory.display());
    Ok(())
}
