//! Analyses of receive queue mapping, after the evaluation in Kawashima, "Software Physical/Virtual Rx Queue Mapping Toward
//! High-Performance Containerized Networking", IEEE TNSM 18 (2021): the cost of copies (tables II and III, figures 9, 11 and
//! 12), the effect of ring sizes, and a model of the caches (tables IV to VI).

mod bench;
mod cache;
mod findings;
mod heat;
mod pattern;
mod patterns;
mod rings;
mod setup;
mod switch;

use crate::compare::Machine;
use crate::{latency, transfer};
use bench::{MeasureError, Measuring};
use clap::Subcommand;
use findings::{Findings, Point, Row};
use lab::process::Interrupt;
use loadgen::cpu::PinError;
use setup::Setup;
use std::path::{Path, PathBuf};

/// An analysis.
#[derive(Clone, Debug, Subcommand)]
pub enum Analyse {
    /// The cost of each copy: the data path with its copies, without them, and as if there were none
    Patterns(patterns::Patterns),
    /// The effect of the sizes of the rings before and behind the switch
    Rings(rings::Rings),
    /// A model of the caches, for each part of the data path
    Cache(cache::Cache),
    /// Be the switch that the others measure: Millrace's data path with copies that no configuration can leave out
    Switch(switch::AnalysisSwitch),
}

/// Error of an analysis.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum AnalyseError {
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error(transparent)]
    Switch(#[from] switch::SwitchError),
    #[error(transparent)]
    Cache(#[from] cache::CacheError),
    #[error("{row}, {pattern}: {source}")]
    Measure { row: String, pattern: pattern::Pattern, source: MeasureError },
    #[error("the results can't be written to {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

/// Runs an analysis.
pub fn run(analyse: &Analyse) -> Result<(), AnalyseError> {
    match analyse {
        Analyse::Patterns(patterns) => patterns::run(patterns),
        Analyse::Rings(rings) => rings::run(rings),
        Analyse::Cache(cache) => cache::run(cache),
        Analyse::Switch(switch) => Ok(switch::run(switch)?),
    }
}

/// A row to measure: the common conditions of its points, and their setups.
type Plan = (String, Vec<Setup>);

/// Measures all rows. After a failure, `findings` holds the rows measured before.
fn measure(findings: &mut Findings, plans: &[Plan], measuring: &Measuring) -> Result<(), AnalyseError> {
    let interrupt = Interrupt::install()?;
    for (number, (label, setups)) in plans.iter().enumerate() {
        let latency = latency::between(measuring.switch_cpu, measuring.load_cpu)?;
        let points = setups.iter().map(|&setup| Point { setup, samples: Vec::new() }).collect();
        let mut row = Row { label: label.clone(), latency, points };
        for _ in 0..measuring.rounds {
            for point in &mut row.points {
                let failed =
                    |source| AnalyseError::Measure { row: label.clone(), pattern: point.setup.pattern, source };
                point.samples.push(bench::measure(&point.setup, measuring, &interrupt).map_err(failed)?);
            }
        }
        let rates: Vec<String> = row.points.iter().map(|p| format!("{:.1}", p.median(|s| s.mpps))).collect();
        eprintln!("[{}/{}] {label}: {} Mpps", number + 1, plans.len(), rates.join(", "));
        findings.rows.push(row);
    }
    Ok(())
}

/// Creates empty findings for this machine.
fn begin(title: &str, measuring: &Measuring, columns: Vec<String>) -> Result<Findings, AnalyseError> {
    let program = std::env::current_exe().unwrap_or_default();
    let transfer = transfer::between(measuring.switch_cpu, measuring.load_cpu)?;
    Ok(Findings::new(title, measuring, Machine::detect(&program), transfer, columns))
}

/// Prints the tables, and writes all files: those common to all analyses, and the charts of this one.
fn end(
    findings: &Findings,
    measuring: &Measuring,
    name: &str,
    pictures: &[(&str, String)],
) -> Result<(), AnalyseError> {
    if findings.rows.is_empty() {
        return Ok(());
    }
    let text = findings.text();
    print!("{text}");
    let directory = measuring.out.clone().unwrap_or_else(|| crate::compare::free_directory(&findings.rig, name));
    let json = serde_json::to_string_pretty(findings).expect("numbers and strings") + "\n";
    let files = [("results.json", &json), ("table.txt", &text)];
    write(&directory, files.into_iter().chain(pictures.iter().map(|(name, svg)| (*name, svg))))
        .map_err(|source| AnalyseError::Write { path: directory.clone(), source })?;
    eprintln!("results in {}", directory.display());
    Ok(())
}

fn write<'f>(directory: &Path, files: impl Iterator<Item = (&'f str, &'f String)>) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for (name, content) in files {
        std::fs::write(directory.join(name), content)?;
    }
    Ok(())
}
