//! Findings: a table of points with their measurements.

use super::bench::{Measuring, Sample};
use super::setup::Setup;
use crate::latency::Latency;
use crate::machine::Machine;
use crate::statistics::Spread;
use crate::transfer::Transfer;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

/// Findings of one analysis.
#[derive(Debug, Serialize)]
pub struct Findings {
    /// Subject of the analysis.
    pub title: String,
    /// Machine of the measurements.
    pub rig: Machine,
    /// Cost of moving cache lines between the processors, before the first measurement.
    pub transfer: Transfer,
    /// Number of rounds.
    pub rounds: u32,
    /// Seconds of each measurement.
    pub seconds: f64,
    /// Conditions in which the points of a row differ.
    pub columns: Vec<String>,
    /// Points that were measured in turn.
    pub rows: Vec<Row>,
}

/// Points measured in turn.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Conditions common to the points.
    pub label: String,
    /// Latency between the processors before the first measurement.
    pub latency: Latency,
    /// One per column.
    pub points: Vec<Point>,
}

/// One point.
#[derive(Debug, Serialize)]
pub struct Point {
    /// The conditions.
    pub setup: Setup,
    /// Measurements, round by round.
    pub samples: Vec<Sample>,
}

impl Point {
    /// Returns the spread of a figure over all rounds.
    pub fn spread(&self, figure: impl Fn(&Sample) -> f64) -> Option<Spread> {
        Spread::of(self.samples.iter().map(figure))
    }

    /// Returns the median of a figure.
    pub fn median(&self, figure: impl Fn(&Sample) -> f64) -> f64 {
        self.spread(figure).map_or(0.0, |spread| spread.median)
    }
}

impl Findings {
    /// Creates empty findings.
    pub fn new(title: &str, measuring: &Measuring, rig: Machine, transfer: Transfer, columns: Vec<String>) -> Findings {
        let (rounds, seconds) = (measuring.rounds, measuring.seconds);
        Findings { title: title.into(), rig, transfer, rounds, seconds, columns, rows: Vec::new() }
    }

    /// Formats text tables of rates and of the switch's cycles.
    pub fn text(&self) -> String {
        let rates = self.table("Mpps", |point| format!("{:.2}", point.median(|sample| sample.mpps)));
        let cycles = self.table("CYCLES", |point| format!("{:.1}", point.median(|sample| sample.switch_cycles)));
        let idle = self.table("LOAD IDLE", |point| format!("{:.0} %", 100.0 * point.median(|sample| sample.load_idle)));
        let mut text = format!("{}\n\n{rates}\n\n{cycles}\n\n{idle}\n\n{}\n", self.title, self.rig);
        text += &format!(
            "Medians of {} rounds of {} s, the points of a row in turn. Frames are counted once for both ways; cycles are \
             those of the switch per frame and way.\nBetween the processors: {}.\n",
            self.rounds, self.seconds, self.transfer
        );
        for (row, point) in self.rows.iter().flat_map(|row| row.points.iter().map(move |point| (row, point))) {
            let lost: u64 = point.samples.iter().map(|sample| sample.lost).sum();
            if lost > 0 {
                text += &format!("Note: {}, {}: {lost} frames lost.\n", row.label, point.setup.pattern);
            }
        }
        text
    }

    fn table(&self, name: &str, cell: impl Fn(&Point) -> String) -> String {
        let mut table = Table::new();
        let header = [name.to_owned()].into_iter().chain(self.columns.iter().cloned());
        table.load_style(NOTHING).set_header(header.chain(["CORES".to_owned()]));
        for index in 1..=self.columns.len() {
            if let Some(column) = table.column_mut(index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for row in &self.rows {
            let cells = row.points.iter().map(&cell);
            let cores = format!("{} {:.0} ns", row.latency.distance, row.latency.nanoseconds);
            table.add_row([row.label.clone()].into_iter().chain(cells).chain([cores]));
        }
        table.trim_fmt()
    }
}
