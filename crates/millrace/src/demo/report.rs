//! Results of the demonstration, as text and JSON.

use super::function::Tally;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use engine::stats::{Snapshot, WorkerStats};
use loadgen::load;
use serde::Serialize;

/// Rate and cost of the switch under a load.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measured {
    /// Millions of frames per second forwarded by the switch, both directions together.
    mpps: f64,
    /// Cycles that the switch spent per frame, without idle polling.
    cycles_per_frame: f64,
    /// Share of the load's rounds that found nothing to do: near zero, the load would be the limit.
    load_idle_rounds: f64,
    /// Frames that came back changed or not at all.
    wrong: u64,
}

impl Measured {
    /// Returns the measurement by this load, with the switch's counters from before and after it.
    pub(super) fn under(load: &load::Report, before: &Snapshot, after: &Snapshot) -> Measured {
        Measured {
            mpps: load.mpps,
            cycles_per_frame: rate(before, after).1,
            load_idle_rounds: load.idle_rounds,
            wrong: load.corrupt + load.lost + load.late,
        }
    }
}

/// Outcome of the run in which every payload is checked.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Checked {
    /// Frames that came back correct.
    right: u64,
    /// Frames that came back wrong, or not at all.
    wrong: u64,
    huge_pages: bool,
}

impl From<Tally> for Checked {
    fn from(tally: Tally) -> Checked {
        Checked { right: tally.right, wrong: tally.sent - tally.right, huge_pages: tally.huge }
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
    rows: Vec<Row>,
    pub(super) checked: Option<Checked>,
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
        Report { sandbox, cpus, rows: Vec::new(), checked: None }
    }

    pub(super) fn introduction(&self) -> String {
        let cpus = match self.cpus {
            1 => "Everything on a single processor, so rates are low",
            _ => "The switch on processor 0, the load on processor 1",
        };
        format!(
            "A switch between two ports, under a load that fills both and checks the first line of every frame.\n{cpus}.\n"
        )
    }

    /// Introduces the run with network functions.
    pub(super) fn functions(&self) -> String {
        let cpus = match self.cpus {
            1 | 2 => "both on one processor, so that they limit the rate",
            _ => "each on a processor of its own",
        };
        format!(
            "\nTwo network functions, {}, {cpus}.\n\
             One sends frames of 512 bytes through the switch, the other sends them back, and every byte is checked:\n",
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
        self.rows.iter().flat_map(|row| row.staged.iter().chain(&row.direct))
    }

    /// Counts the wrong or lost frames.
    pub(super) fn wrong(&self) -> u64 {
        self.all().map(|measured| measured.wrong).chain(self.checked.iter().map(|checked| checked.wrong)).sum()
    }

    pub(super) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    pub(super) fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(NOTHING);
        table.set_header(["FRAME", "COPIED TWICE", "", "MILLRACE", "", "RATE", "CYCLES"]);
        table.add_row(["bytes", "Mpps", "cycles", "Mpps", "cycles", "", "saved"]);
        for row in &self.rows {
            let mean = |runs: &[Measured], of: fn(&Measured) -> f64| {
                runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64
            };
            let [mpps_before, mpps] = [&row.staged, &row.direct].map(|runs| mean(runs, |m| m.mpps));
            let [cycles_before, cycles] = [&row.staged, &row.direct].map(|runs| mean(runs, |m| m.cycles_per_frame));
            table.add_row([
                row.size.to_string(),
                format!("{mpps_before:.2}"),
                format!("{cycles_before:.0}"),
                format!("{mpps:.2}"),
                format!("{cycles:.0}"),
                format!("{:.2} x", mpps / mpps_before.max(1e-9)),
                format!("{:.0} %", 100.0 * (1.0 - cycles / cycles_before.max(1e-9))),
            ]);
        }
        table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        let idle = self.all().map(|measured| measured.load_idle_rounds).fold(1.0, f64::min);
        format!(
            "{table}\n\n\
             Copied twice: into a private buffer of the switch, then to the receiver, as switches with packet pools do.\n\
             Both directions together; cycles are the switch's for a frame. The load waited for the switch in {:.0} % of its\n\
             rounds or more.",
            100.0 * idle
        )
    }

    /// Describes the outcome of the run with network functions.
    pub(super) fn outcome(&self) -> String {
        let Some(Checked { right, wrong, huge_pages }) = &self.checked else { return String::new() };
        let pages = if *huge_pages { "huge pages" } else { "normal pages: no huge ones are free" };
        format!(
            "\n{right} frames came back with every byte right, {wrong} did not. Memory of the network functions: {pages}."
        )
    }
}
