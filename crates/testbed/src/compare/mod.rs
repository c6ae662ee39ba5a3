//! Comparison of Millrace with a peer: both switches in turn, under the same load, on the same processors.
//!
//! Virtual processors move while a test runs, so single figures mean little. The switches take turns in every scenario, each
//! alone on the machine, and the ratio within a round counts.

mod chart;
mod choices;
mod figures;
mod lone;
mod measure;
mod millrace;
mod options;
mod progress;
mod results;
mod scenario;
mod table;

pub use chart::{DrawCharts, run as run_chart};
pub use lone::{LoneFrames, run as run_lone_frames};
pub use options::Compare;
pub use results::Counted;

use crate::machine::{Machine, commit_of};
use crate::millrace::MillraceError;
use crate::record::{RecordError, free_directory};
use crate::transfer;
use choices::LoadKind;
use lab::dpdk::{self, Pages};
use lab::ovs;
use lab::process::Interrupt;
use loadgen::cpu::PinError;
use measure::{Bench, MeasureError};
use progress::Progress;
use results::{Outcome, Results, Run};
use scenario::{Contestant, Scenario};

/// Error of a comparison.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum CompareError {
    #[error(transparent)]
    Millrace(#[from] MillraceError),
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error(
        "the load by testpmd touches nothing but headers, in its own way: leave --touch out, or use --load testbed"
    )]
    Touch,
    #[error(
        "--forward takes one, to be compared with a peer, or two, to be compared with each other and without --peer"
    )]
    Forward,
    #[error("--peer millrace compares with another build: name its program by --against")]
    Against,
    #[error(transparent)]
    Ovs(#[from] ovs::Unavailable),
    #[error("chains of functions, and functions that exchange buffers, are the testbed's: --load testbed")]
    Functions,
    #[error("tunnels and functions that keep their frames are the wire's: --load wire")]
    Wire,
    #[error(
        "--vxlan ends a tunnel at Millrace's port, and at no other switch's: name two ways by --forward, or --peer millrace"
    )]
    Tunnel,
    #[error("receiving into a network function's buffers needs a NIC: --load wire or null")]
    Mapped,
    #[error("{scenario}, {contestant}: {source}")]
    Measure { scenario: Scenario, contestant: Contestant, source: MeasureError },
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Compares, prints a table, and writes the results to files.
pub fn run(compare: &Compare) -> Result<(), CompareError> {
    if compare.load == LoadKind::Testpmd && !compare.touch.is_empty() {
        return Err(CompareError::Touch);
    }
    let contestants = Contestant::pair(&compare.forward, compare.peer).ok_or(CompareError::Forward)?;
    let plain = compare.functions.iter().all(|&functions| functions == 2)
        && !compare.forward.iter().any(|forward| forward.exchanges());
    if compare.load != LoadKind::Testbed && !plain {
        return Err(CompareError::Functions);
    }
    let has_nic = matches!(compare.load, LoadKind::Wire | LoadKind::Null);
    if !has_nic && compare.forward.iter().any(|forward| forward.is_mapped()) {
        return Err(CompareError::Mapped);
    }
    if compare.load != LoadKind::Wire && (compare.vxlan || compare.sink) {
        return Err(CompareError::Wire);
    }
    if compare.vxlan && !contestants.iter().all(|contestant| contestant.is_millrace()) {
        return Err(CompareError::Tunnel);
    }
    let program = crate::millrace::program(compare.millrace.as_deref())?;
    let against = compare.against.clone();
    if matches!(contestants[1], Contestant::Against(_)) != against.is_some() {
        return Err(CompareError::Against);
    }
    let interrupt = Interrupt::install()?;
    let load = if compare.load == LoadKind::Testpmd { dpdk::MEGABYTES } else { 0 };
    let dpdk = contestants[1].dpdk_megabytes() + load;
    let pages = if dpdk > 0 { Pages::for_dpdk(dpdk) } else { Pages::Normal };
    if contestants[1] == Contestant::Ovs {
        ovs::Build::Dpdk.available(pages)?;
    }
    let mut results = Results::new(compare, contestants, Machine::detect(&program));
    if dpdk > 0 && pages == Pages::Normal {
        results.notes.push("DPDK ran without huge pages, as there were none, which slows it down".to_owned());
    }
    if let Some(against) = &against {
        let commit = commit_of(against).unwrap_or_else(|| "unknown".to_owned());
        results.notes.push(format!("the other build is of commit {commit}"));
    }
    results.transfer = Some(transfer::between(compare.switch_cpu, compare.load_cpu)?);
    let bench = Bench { compare, millrace: program, against, pages, interrupt: &interrupt };
    let outcome = run_all(&bench, &mut results);
    // Keep the results measured before a failure.
    if !results.outcomes.is_empty() {
        let text = table::text(&results);
        print!("{text}");
        let directory = compare.out.clone().unwrap_or_else(|| free_directory(&results.rig, &compare.label));
        let record = figures::record(&results);
        record.write(&directory, &[("table.txt", &text), (chart::FILE, &chart::svg(&record))])?;
        eprintln!("results in {}", directory.display());
    }
    outcome
}

fn run_all(bench: &Bench<'_>, results: &mut Results) -> Result<(), CompareError> {
    let scenarios = Scenario::all(bench.compare);
    let mut progress = Progress::new(scenarios.len(), bench.compare.rounds());
    for scenario in scenarios {
        let mut runs: Vec<Run> = Vec::new();
        for round in 0..bench.compare.rounds() {
            for contestant in results.contestants {
                progress.step(scenario, contestant, round);
                let failed = |source| CompareError::Measure { scenario, contestant, source };
                let run = bench.measure(contestant, scenario, round).or_else(|error| {
                    if error.is_interrupt() {
                        return Err(error);
                    }
                    // Retry once: don't discard minutes of measurements because one program did not start.
                    results.notes.push(format!("{scenario}, {contestant}, round {}: repeated, {error}", round + 1));
                    bench.measure(contestant, scenario, round)
                });
                runs.push(run.map_err(failed)?);
            }
        }
        let contestant = results.contestants[1];
        let latency_after = bench.latency().map_err(|source| CompareError::Measure { scenario, contestant, source })?;
        let outcome = Outcome { scenario, runs, latency_after };
        if let Some(version) = outcome.runs.iter().find_map(|run| run.dpdk.clone()) {
            results.rig.dpdk = Some(version);
        }
        results.notes.extend(outcome.notes());
        progress.done(&outcome, results.contestants);
        results.outcomes.push(outcome);
    }
    Ok(())
}
