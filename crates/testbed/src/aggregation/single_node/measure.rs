//! Measurement of cases in turn, round by round.

use super::results::{Case, Results, Row, classes};
use super::{NODE_CPU, Sample, SingleNodeConfig, TRAFFIC_CPU, pass};
use crate::aggregation::error::{AggregationError, SingleNodeError};
use crate::aggregation::rig::{Programs, Rig};
use crate::latency;
use crate::machine::Machine;
use crate::record::free_directory;
use clap::Args;
use loadgen::traffic::OfferedLoad;
use std::path::{Path, PathBuf};

/// Options of all measurements of traffic.
#[derive(Clone, Debug, Args)]
pub struct Measuring {
    /// Measurements of each case, in turn with the others
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Seconds of each measurement at one rate
    #[arg(long, default_value_t = 0.5, value_parser = seconds)]
    pub seconds: f64,
    /// The network function passes packets on without looking at them, instead of swapping their MAC addresses
    #[arg(long)]
    pub unseen: bool,
    #[command(flatten)]
    pub programs: Programs,
    /// Directory for the results [default: bench/results/DATE-aggregation-COMMAND]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the results as JSON, and not as a table
    #[arg(long)]
    pub json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.02..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give a number of seconds from 0.02 to 600".to_owned()),
    }
}

/// Parses millions of packets per second.
pub fn millions(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.0001..=1000.0).contains(&rate) => Ok(rate),
        _ => Err("give millions of packets a second, from 0.0001 to 1000".to_owned()),
    }
}

/// Measures all cases at all rates, in millions of packets per second. After a failure the results hold the measurements made
/// before.
pub fn measure(
    measuring: &Measuring,
    cases: &[Case],
    rates: &[f64],
) -> Result<(Results, Result<(), AggregationError>), AggregationError> {
    let rig = Rig::new(&measuring.programs, 0)?;
    let mut results = Results {
        rig: Machine::detect(rig.millrace()),
        cores: latency::between(NODE_CPU, TRAFFIC_CPU)?,
        rounds: measuring.rounds,
        seconds: measuring.seconds,
        unseen: measuring.unseen,
        rows: Vec::new(),
        notes: Vec::new(),
    };
    let rows = cases.iter().flat_map(|&case| rates.iter().map(move |&rate| (case, rate)));
    results.rows = rows.map(|(case, rate)| Row { case, rate, samples: Vec::new(), times: Vec::new() }).collect();
    let outcome = rounds(&rig, measuring, cases, rates, &mut results);
    results.rows.retain(|row| !row.samples.is_empty());
    let nanoseconds = 1.0 / results.rig.tsc_ghz;
    for row in &mut results.rows {
        row.times = classes(&row.histogram());
        row.times.iter_mut().for_each(|class| {
            (class.from, class.to) = ((class.from * nanoseconds).round(), (class.to * nanoseconds).round());
        });
    }
    Ok((results, outcome))
}

fn rounds(
    rig: &Rig,
    measuring: &Measuring,
    cases: &[Case],
    rates: &[f64],
    results: &mut Results,
) -> Result<(), AggregationError> {
    for round in 1..=measuring.rounds {
        for (case, rows) in cases.iter().zip(0..) {
            let Case { path, placement, .. } = *case;
            let failed = |source| AggregationError::Traffic { path, placement, source };
            let samples = once(rig, case, rates, measuring).or_else(|error| {
                if error.is_interrupt() {
                    return Err(error);
                }
                // Retry once: don't discard minutes of measurements because one program did not start.
                results.notes.push(format!("{path}, {placement}, round {round}: repeated, {error}"));
                once(rig, case, rates, measuring)
            });
            let samples = samples.map_err(failed)?;
            let own = results.rows.iter_mut().skip(rows * rates.len());
            own.zip(samples).for_each(|(row, sample)| row.samples.push(sample));
        }
        eprintln!("round {round} of {}", measuring.rounds);
    }
    Ok(())
}

fn once(rig: &Rig, case: &Case, rates: &[f64], measuring: &Measuring) -> Result<Vec<Sample>, SingleNodeError> {
    let Case { path: exit, placement, train, joined } = *case;
    let load = |rate: f64| OfferedLoad { rate: rate * 1e6, train, joined };
    let config = SingleNodeConfig { placement, exit, unseen: measuring.unseen };
    let first = load(rates.first().copied().unwrap_or(1.0));
    pass(rig, config, first, |single_node| {
        rates.iter().map(|&rate| single_node.measure(&load(rate), measuring.seconds, rig)).collect()
    })
}

/// Prints the table, and writes everything to files; `name` is the name of the measurement.
pub fn finish(
    measuring: &Measuring,
    name: &str,
    results: &Results,
    table: &str,
    pictures: &[(&str, String)],
) -> Result<(), AggregationError> {
    let json = serde_json::to_string(results).expect("numbers and strings") + "\n";
    print!("{}", if measuring.json { &json } else { table });
    let directory =
        measuring.out.clone().unwrap_or_else(|| free_directory(&results.rig, &format!("aggregation-{name}")));
    write(&directory, [("results.json", json.as_str()), ("table.md", table)], pictures)
        .map_err(|source| AggregationError::Write { path: directory.clone(), source })?;
    eprintln!("results in {}", directory.display());
    Ok(())
}

fn write(directory: &Path, texts: [(&str, &str); 2], pictures: &[(&str, String)]) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let pictures = pictures.iter().map(|(name, picture)| (*name, picture.as_str()));
    for (name, content) in texts.into_iter().chain(pictures) {
        std::fs::write(directory.join(name), content)?;
    }
    Ok(())
}
