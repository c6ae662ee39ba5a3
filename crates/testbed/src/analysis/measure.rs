//! The common part of analyses that measure rates: they measure rows of points, print tables, and write files.

use super::bench::{self, Measuring};
use super::error::AnalyseError;
use super::files::write;
use super::findings::{Findings, Point, Row};
use super::setup::Setup;
use crate::machine::Machine;
use crate::{latency, transfer};
use lab::process::Interrupt;

/// A row to measure: the common conditions of its points, and their setups.
pub(super) type Plan = (String, Vec<Setup>);

/// Measures all rows. After a failure, `findings` holds the rows measured before.
pub(super) fn measure(findings: &mut Findings, plans: &[Plan], measuring: &Measuring) -> Result<(), AnalyseError> {
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
pub(super) fn begin(title: &str, measuring: &Measuring, columns: Vec<String>) -> Result<Findings, AnalyseError> {
    let program = std::env::current_exe().unwrap_or_default();
    let transfer = transfer::between(measuring.switch_cpu, measuring.load_cpu)?;
    Ok(Findings::new(title, measuring, Machine::detect(&program), transfer, columns))
}

/// Prints the tables, and writes all files: those common to all analyses, and the charts of this one.
pub(super) fn end(
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
    let directory = measuring.out.clone().unwrap_or_else(|| crate::record::free_directory(&findings.rig, name));
    let json = serde_json::to_string_pretty(findings).expect("numbers and strings") + "\n";
    let files = [("results.json", &json), ("table.txt", &text)];
    write(&directory, files.into_iter().chain(pictures.iter().map(|(name, svg)| (*name, svg))))
        .map_err(|source| AnalyseError::Write { path: directory.clone(), source })?;
    eprintln!("results in {}", directory.display());
    Ok(())
}
