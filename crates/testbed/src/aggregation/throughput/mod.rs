//! Throughput by packet size, as in figures 8 and 10 of the paper: without aggregation, and with packets split and joined in
//! different places.

mod chart;
mod measure;
mod options;
mod results;
mod search;
mod table;

pub use measure::Loaded;
pub use options::{Throughput, cpus, seconds};
pub use results::{Load, Results, Row, Run};
pub use search::{Loads, best};

use super::AggregationError;
use super::rig::{Between, Cpus, Packets, Placement, Rig, RigError, TwoNodesConfig, replay};
use crate::latency;
use crate::machine::Machine;
use crate::record::free_directory;
use lab::millrace::config::sink;
use std::path::Path;

/// Measures, prints, and writes the results to files.
pub fn run(options: &Throughput) -> Result<(), AggregationError> {
    if let Some(&placement) = options.placements().iter().find(|placement| !options.function.takes(**placement)) {
        return Err(AggregationError::Placement { placement });
    }
    let megabytes = options.path.iter().map(|path| path.megabytes()).max().unwrap_or(0) + options.function.megabytes();
    let rig = Rig::new(&options.programs, megabytes)?;
    let mut results = Results {
        rig: Machine::detect(rig.millrace()),
        function: options.function,
        rounds: options.rounds,
        seconds: options.seconds,
        rows: Vec::new(),
        notes: Vec::new(),
    };
    let outcome = run_all(&rig, options, &mut results);
    // Keep the results measured before a failure.
    if !results.rows.is_empty() {
        let text = table::markdown(&results);
        let json = serde_json::to_string_pretty(&results).expect("numbers and strings") + "\n";
        print!("{}", if options.json { &json } else { &text });
        let directory = options.out.clone().unwrap_or_else(|| free_directory(&results.rig, "aggregation-throughput"));
        write(&directory, &results, &json, &text)
            .map_err(|source| AggregationError::Write { path: directory.clone(), source })?;
        eprintln!("results in {}", directory.display());
    }
    outcome
}

fn run_all(rig: &Rig, options: &Throughput, results: &mut Results) -> Result<(), AggregationError> {
    for &path in &options.path {
        for &size in &options.sizes {
            let cpus = options.cpus(path);
            let other = if path.is_program() { cpus.link } else { cpus.a.cpu };
            // A processor has no distance from itself.
            let latency = || (other != cpus.b.cpu).then(|| latency::between(cpus.b.cpu, other)).transpose();
            let mut before = latency()?;
            let mut row = Row { path, size, cpus, runs: Vec::new() };
            for round in 0..options.rounds {
                for &placement in options.placements() {
                    let failed = |source| AggregationError::Measure { path, size, placement, source };
                    let earlier = row.runs.iter().rfind(|run| run.placement == placement);
                    let once = || run_once(rig, options, Conditions { path, size, placement, cpus }, earlier);
                    let loads = once().or_else(|error| {
                        if error.is_interrupt() {
                            return Err(error);
                        }
                        // Retry once: don't discard minutes of measurements because one program did not start.
                        results.notes.push(format!("{path}, {size} B, {placement}: repeated, {error}"));
                        once()
                    });
                    let (loads, version) = loads.map_err(failed)?;
                    results.rig.dpdk = version.or(results.rig.dpdk.take());
                    let after = latency()?;
                    let latency = before.zip(after).map(|(before, after)| [before, after]);
                    before = after;
                    row.runs.push(Run { placement, round, latency, loads });
                }
            }
            let rates = options.placements().iter().filter_map(|&placement| {
                Some(format!("{placement} {:.2}", row.spread(placement, |load| load.mpps)?.median))
            });
            eprintln!("{path}, {size} B: {} Mpps", rates.collect::<Vec<_>>().join(", "));
            results.rows.push(row);
        }
    }
    Ok(())
}

/// Conditions of one measurement.
#[derive(Clone, Copy)]
struct Conditions {
    path: Between,
    size: u16,
    placement: Placement,
    cpus: Cpus,
}

/// Measures one placement in one round, after the `earlier` one.
fn run_once(
    rig: &Rig,
    options: &Throughput,
    conditions: Conditions,
    earlier: Option<&Run>,
) -> Result<(Vec<Load>, Option<String>), RigError> {
    let Conditions { path, size, placement, cpus } = conditions;
    let packets = Packets::Size(size);
    let near = replay(rig, "near", packets, Some(1000))?;
    let out = sink("out");
    let function = options.function;
    let config = TwoNodesConfig { between: path, function, placement, mapped: false, near, out, cpus };
    let mut loaded = Loaded::start(rig, config, packets)?;
    let version = loaded.version();
    let before = earlier.map(|run| run.best().map_or(0.0, |best| best.mpps));
    let loads = options.loads.of_round(before, |rate| loaded.load(rate, options.seconds))?;
    Ok((loads, version))
}

fn write(directory: &Path, results: &Results, json: &str, table: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    std::fs::write(directory.join("results.json"), json)?;
    std::fs::write(directory.join("table.md"), table)?;
    for (path, picture) in chart::svg(results) {
        std::fs::write(directory.join(format!("{path}.svg")), picture)?;
    }
    Ok(())
}
