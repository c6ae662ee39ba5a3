//! Progress on the terminal.

use super::loss::Totals;
use super::plan::Turn;
use super::record::RunRecord;
use super::store::Store;
use crate::scenario::Dimension;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::Path;
use std::time::Duration;

/// A bar with the current run; without a terminal, a line for each run.
pub struct Progress {
    bar: ProgressBar,
    all: usize,
}

impl Progress {
    /// Begins with the runs that are not stored.
    pub fn new(turns: &[Turn], store: &Store) -> Progress {
        let stored = turns.iter().filter(|turn| store.find(&turn.point, turn.round).is_some()).count();
        if stored > 0 {
            eprintln!("{stored} of {} runs are there already", turns.len());
        }
        let bar = ProgressBar::new(turns.len() as u64);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len}, {eta} left: {wide_msg}");
        bar.set_style(style.expect("the template is sound"));
        bar.set_position(stored as u64);
        bar.reset_eta();
        bar.enable_steady_tick(Duration::from_millis(500));
        Progress { bar, all: turns.len() }
    }

    /// Shows that a run begins.
    pub fn begin(&self, turn: &Turn) {
        self.bar.set_message(format!("{}, round {}", turn.point, turn.round + 1));
    }

    /// Shows the outcome of a run.
    pub fn done(&mut self, record: &RunRecord) {
        self.bar.inc(1);
        let line = format!("{}, round {}: {}", record.point, record.round + 1, outcome(record));
        if self.bar.is_hidden() {
            eprintln!("{}/{} {line}", self.bar.position(), self.all);
        } else {
            self.bar.println(line);
        }
    }

    /// Shows where the results are.
    pub fn finish(&self, directory: &Path) {
        self.bar.finish_and_clear();
        eprintln!("results in {}; `testbed report {0}` draws them", directory.display());
    }
}

fn outcome(record: &RunRecord) -> String {
    if let Some(error) = &record.error {
        let first = error.lines().next().unwrap_or_default();
        return format!("failed: {first}");
    }
    if let Some(search) = &record.search {
        let rate = |bounds: [f64; 2]| format!("{:.2} Mpps", bounds[0] / 1e6);
        return format!("{} without loss, {} with 0.5 %", rate(search.ndr), rate(search.pdr));
    }
    let totals = Totals::of(&record.reports);
    let mut text = format!("{:.3} Mpps, {:.2} % lost", totals.rate() / 1e6, 100.0 * totals.loss());
    let latency = record.reports.iter().flat_map(|report| &report.flows).find_map(|flow| flow.latency);
    if let (Dimension::Latency, Some(latency)) = (record.point.dimension, latency) {
        text += &format!(", {:.1} us median, {:.1} us p99", latency.p50 / 1e3, latency.p99 / 1e3);
    }
    text
}
