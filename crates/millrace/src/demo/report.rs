//! Results of the demonstration, as text and JSON.

use super::function::Tally;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use engine::stats::{Snapshot, WorkerStats};
use serde::Serialize;

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measured {
    /// Millions of frames per second forwarded by the switch, both directions together.
    pub(super) mpps: f64,
    /// Cycles that the switch spent per frame, without idle polling.
    pub(super) cycles_per_frame: f64,
    /// Frames that came back correct.
    pub(super) right: u64,
    /// Frames that came back wrong, or not at all.
    pub(super) wrong: u64,
    huge_pages: bool,
}

impl Measured {
    pub(super) fn between(before: &Snapshot, after: &Snapshot, tally: Tally) -> Measured {
        let (mpps, cycles_per_frame) = rate(before, after);
        let wrong = tally.sent - tally.right;
        Measured { mpps, cycles_per_frame, right: tally.right, wrong, huge_pages: tally.huge }
    }
}

/// Computes Mpps and cycles per frame between two snapshots.
fn rate(before: &Snapshot, after: &Snapshot) -> (f64, f64) {
    let sum = |snapshot: &Snapshot, of: fn(&WorkerStats) -> u64| snapshot.workers.iter().map(of).sum::<u64>();
    let grown = |of| (sum(after, of) - sum(before, of)) as f64;
    let frames = grown(|w| w.packets).max(1.0);
    let seconds = (after.uptime_seconds - before.uptime_seconds).max(1e-9);
    (frames / seconds / 1e6, grown(|w| w.busy_cycles) / frames)
}

/// Formats a line of live rates.
pub(super) fn rates(before: &Snapshot, after: &Snapshot) -> String {
    let (mpps, cycles) = rate(before, after);
    let bytes = |s: &Snapshot| s.ports.iter().flat_map(|p| &p.queues).map(|q| q.rx_bytes).sum::<u64>() as f64;
    let seconds = (after.uptime_seconds - before.uptime_seconds).max(1e-9);
    let gbps = (bytes(after) - bytes(before)) * 8.0 / seconds / 1e9;
    let drops: u64 = after.ports.iter().flat_map(|p| p.drops.values()).sum();
    format!("  {mpps:6.2} Mpps  {gbps:6.1} Gbit/s  {cycles:5.0} cycles per frame  {drops} dropped")
}

/// All measurements.
#[derive(Serialize)]
pub(super) struct Report {
    sandbox: String,
    cpus: usize,
    pub(super) live: Option<Measured>,
    rows: Vec<Row>,
}

/// Results of a frame size, measured in both modes.
#[derive(Serialize)]
struct Row {
    size: usize,
    staged: Vec<Measured>,
    direct: Vec<Measured>,
}

impl Report {
    pub(super) fn new(sandbox: String, cpus: usize) -> Report {
        Report { sandbox, cpus, live: None, rows: Vec::new() }
    }

    pub(super) fn introduction(&self) -> String {
        let cpus = match self.cpus {
            1 => "all on the one processor there is, so rates are low".to_owned(),
            2 => "the switch on processor 0, both network functions on processor 1".to_owned(),
            _ => "the switch on processor 0, the network functions on 1 and 2".to_owned(),
        };
        format!(
            "A switch and two network functions, {};\n{cpus}.\n\
             One sends frames through the switch, the other sends them back, and every byte is checked.\n\n\
             Frames of 512 bytes:",
            self.sandbox
        )
    }

    pub(super) fn add(&mut self, size: usize, staged: bool, measured: Measured) {
        if self.rows.last().is_none_or(|row| row.size != size) {
            self.rows.push(Row { size, staged: Vec::new(), direct: Vec::new() });
        }
        if let Some(row) = self.rows.last_mut() {
            if staged { &mut row.staged } else { &mut row.direct }.push(measured);
        }
    }

    fn all(&self) -> impl Iterator<Item = &Measured> {
        self.live.iter().chain(self.rows.iter().flat_map(|row| row.staged.iter().chain(&row.direct)))
    }

    /// Counts the wrong or lost payloads.
    pub(super) fn wrong(&self) -> u64 {
        self.all().map(|m| m.wrong).sum()
    }

    pub(super) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    pub(super) fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(NOTHING);
        table.set_header(["FRAME", "COPIED TWICE", "", "MILLRACE", "", "GAIN"]);
        table.add_row(["bytes", "Mpps", "cycles", "Mpps", "cycles", "in cycles"]);
        for row in &self.rows {
            let [(mpps_a, cycles_a), (mpps_b, cycles_b)] = [&row.staged, &row.direct].map(|runs| {
                let mean = |of: fn(&Measured) -> f64| runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64;
                (mean(|m| m.mpps), mean(|m| m.cycles_per_frame))
            });
            table.add_row([
                row.size.to_string(),
                format!("{mpps_a:.2}"),
                format!("{cycles_a:.0}"),
                format!("{mpps_b:.2}"),
                format!("{cycles_b:.0}"),
                format!("{:.2} x", cycles_a / cycles_b.max(1e-9)),
            ]);
        }
        table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        let right: u64 = self.all().map(|m| m.right).sum();
        let pages = if self.all().any(|m| m.huge_pages) { "huge pages" } else { "normal pages: no huge ones are free" };
        format!(
            "{table}\n\n\
             Copied twice: into a private buffer of the switch, then to the receiver, as switches with packet pools do.\n\
             Cycles are those of the switch for a frame; the network functions limit the rates.\n\
             Memory of the network functions: {pages}.\n\
             {right} frames came back with every byte right, {} did not.",
            self.wrong()
        )
    }
}
