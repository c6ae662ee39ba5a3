//! Throughput with the second node's port mapped to the network function, and without, in turn: for packets of one size, and for
//! mixes of packets that are joined and packets that fill a frame.

use super::AggregationError;
use super::rig::{Between, Cpus, Packets, Placement, Program, Programs, Rig, RigError, TwoNodesConfig, replay};
use super::throughput::{Load, Loaded, Loads, best, cpus, seconds};
use crate::latency::{self, Latency};
use crate::machine::Machine;
use crate::record::free_directory;
use crate::statistics::Spread;
use clap::Args;
use lab::millrace::config::sink;
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// How much gets through a mapped and an unmapped port.
#[derive(Clone, Debug, Args)]
pub struct Mapping {
    /// Link between the nodes; the second one must have a port there that can be mapped
    #[arg(long, value_delimiter = ',', default_values = ["virtio"], value_parser = mappable)]
    pub path: Vec<Between>,
    /// Packets: bytes of all of them, `imix`, or `half` (16 of 64 and 16 of 1498 bytes in turn)
    #[arg(long, value_delimiter = ',', default_values = ["64", "imix", "half", "1498"])]
    pub packets: Vec<Packets>,
    /// Where packets are split and joined
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["none", "vhost", "nf", "native"])]
    pub placement: Vec<Placement>,
    /// Measurements of each placement with and without the mapping, in turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Seconds of each measurement at one load
    #[arg(long, default_value_t = 0.2, value_parser = seconds)]
    pub seconds: f64,
    /// Loads of each measurement
    #[arg(long, value_enum, default_value = "search")]
    pub loads: Loads,
    /// Processors of the two nodes, the network function, and a program between the nodes
    #[arg(long, value_name = "A,B,FUNCTION,LINK", value_parser = cpus, default_value = "1,0,0,1")]
    pub cpus: [usize; 4],
    #[command(flatten)]
    pub programs: Programs,
    /// Directory for the results [default: bench/results/DATE-aggregation-mapping]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Parses a link whose port at the second node can be mapped.
fn mappable(text: &str) -> Result<Between, String> {
    match text {
        "virtio" => Ok(Between::Virtio),
        "af_xdp" => Ok(Between::AfXdp),
        _ => Err("only the ports of `virtio` and `af_xdp` can be mapped".to_owned()),
    }
}

/// All results.
#[derive(Debug, Serialize)]
struct Results {
    rig: Machine,
    rounds: u32,
    seconds: f64,
    rows: Vec<Row>,
}

/// Packets that took one path, split and joined in one place.
#[derive(Debug, Serialize)]
struct Row {
    path: Between,
    packets: Packets,
    placement: Placement,
    /// Latency between the two nodes, before the first measurement.
    latency: Option<Latency>,
    rounds: Vec<Round>,
}

/// All loads of a round, without the mapping and with it.
#[derive(Debug, Serialize)]
struct Round {
    unmapped: Vec<Load>,
    mapped: Vec<Load>,
}

impl Row {
    /// Returns the spread over all rounds of a figure of the best loads without the mapping and with it.
    fn spread(&self, figure: impl Fn(&Load, &Load) -> f64) -> Option<Spread> {
        let figures = self.rounds.iter().filter_map(|round| Some(figure(best(&round.unmapped)?, best(&round.mapped)?)));
        Spread::of(figures)
    }
}

/// Measures, prints, and writes the results to files.
pub fn run(options: &Mapping) -> Result<(), AggregationError> {
    if let Some(&placement) = options.placement.iter().find(|placement| !Program::default().takes(**placement)) {
        return Err(AggregationError::Placement { placement });
    }
    let rig = Rig::new(&options.programs, 0)?;
    let machine = Machine::detect(rig.millrace());
    let mut results = Results { rig: machine, rounds: options.rounds, seconds: options.seconds, rows: Vec::new() };
    let outcome = run_all(&rig, options, &mut results);
    // Keep the results measured before a failure.
    if !results.rows.is_empty() {
        let table = table(&results);
        print!("{table}");
        let directory = options.out.clone().unwrap_or_else(|| free_directory(&results.rig, "aggregation-mapping"));
        write(&directory, &results, &table)
            .map_err(|source| AggregationError::Write { path: directory.clone(), source })?;
        eprintln!("results in {}", directory.display());
    }
    outcome
}

fn run_all(rig: &Rig, options: &Mapping, results: &mut Results) -> Result<(), AggregationError> {
    let cpus = Cpus::on(options.cpus);
    for &path in &options.path {
        for &packets in &options.packets {
            for &placement in &options.placement {
                // A processor has no distance from itself.
                let apart = cpus.a.cpu != cpus.b.cpu;
                let latency = apart.then(|| latency::between(cpus.b.cpu, cpus.a.cpu)).transpose()?;
                let mut row = Row { path, packets, placement, latency, rounds: Vec::new() };
                for _ in 0..options.rounds {
                    let loads = |mapped| {
                        loads(rig, options, Conditions { path, packets, placement, mapped, cpus })
                            .map_err(|source| AggregationError::Mapped { path, packets, placement, source })
                    };
                    row.rounds.push(Round { unmapped: loads(false)?, mapped: loads(true)? });
                }
                results.rows.push(row);
            }
        }
    }
    Ok(())
}

/// Conditions of one measurement.
struct Conditions {
    path: Between,
    packets: Packets,
    placement: Placement,
    mapped: bool,
    cpus: Cpus,
}

/// Tries the loads.
fn loads(rig: &Rig, options: &Mapping, conditions: Conditions) -> Result<Vec<Load>, RigError> {
    let Conditions { path, packets, placement, mapped, cpus } = conditions;
    let (near, out) = (replay(rig, "near", packets, Some(1000))?, sink("out"));
    let config = TwoNodesConfig { between: path, function: Program::default(), placement, mapped, near, out, cpus };
    let mut loaded = Loaded::start(rig, config, packets)?;
    options.loads.of_first_round(|rate| loaded.load(rate, options.seconds))
}

fn table(results: &Results) -> String {
    let mut out = "| path | packets | placement | Mpps (min..max) | mapped, Mpps | times unmapped | \
                   cycles a packet of B, unmapped / mapped | frames in place |\n|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for row in &results.rows {
        let range = |spread: Option<Spread>| {
            spread.map_or("-".to_owned(), |s| format!("{:.2} ({:.2}..{:.2})", s.median, s.min, s.max))
        };
        let median = |figure: fn(&Load, &Load) -> f64| row.spread(figure).map_or(0.0, |spread| spread.median);
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {:.0} / {:.0} | {:.0} % |",
            row.path,
            row.packets,
            row.placement,
            range(row.spread(|unmapped, _| unmapped.mpps)),
            range(row.spread(|_, mapped| mapped.mpps)),
            range(row.spread(|unmapped, mapped| mapped.mpps / unmapped.mpps)),
            median(|unmapped, _| unmapped.b.cycles),
            median(|_, mapped| mapped.b.cycles),
            median(|_, mapped| 100.0 * mapped.in_place.unwrap_or(0.0)),
        );
    }
    let _ = writeln!(
        out,
        "\n{}. Medians of {} rounds, {} s at each load, without and with the mapping in turn; ratios are taken within rounds.",
        results.rig, results.rounds, results.seconds
    );
    out
}

fn write(directory: &Path, results: &Results, table: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let json = serde_json::to_string_pretty(results).expect("numbers and strings") + "\n";
    std::fs::write(directory.join("results.json"), json)?;
    std::fs::write(directory.join("table.md"), table)
}
