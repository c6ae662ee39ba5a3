//! The plain forms: blocks of lines for logs, and lines of JSON for programs.

use super::grid::Grid;
use super::rates::Rates;
use super::sample::Sample;
use super::view::View;
use crate::ctl::tables;
use client::ClientError;
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

/// Form of an interval's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Json,
}

/// A line of JSON.
#[derive(Serialize)]
struct Line<'r> {
    /// When the interval ended, as RFC 3339 has it.
    time: &'r str,
    #[serde(flatten)]
    report: Report<'r>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Report<'r> {
    Rates(&'r Rates),
    Gone { error: String },
}

/// Writes a report of each interval to `out`, `count` of them if that is given. A switch that is gone is retried.
pub(super) fn run(
    socket: &Path,
    first: Sample,
    interval: Duration,
    count: Option<u64>,
    form: Form,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut before = first;
    let mut reports = 0;
    while count.is_none_or(|count| reports < count) {
        thread::sleep(interval);
        let outcome = Sample::take(socket);
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let rates = outcome.as_ref().map(|now| Rates::between(&before, now));
        writeln!(out, "{}", show(&time, rates, form)?)?;
        out.flush()?;
        before = outcome.unwrap_or(before);
        reports += 1;
    }
    Ok(())
}

fn show(time: &str, rates: Result<Rates, &ClientError>, form: Form) -> io::Result<String> {
    match (form, rates) {
        (Form::Plain, Ok(rates)) => Ok(block(time, rates)),
        (Form::Plain, Err(error)) => Ok(format!("{time}  trying again: {error}\n")),
        (Form::Json, rates) => {
            let report = match &rates {
                Ok(rates) => Report::Rates(rates),
                Err(error) => Report::Gone { error: error.to_string() },
            };
            Ok(serde_json::to_string(&Line { time, report })?)
        }
    }
}

/// Returns the tables of all views that have something to show, below a line with the time.
fn block(time: &str, mut rates: Rates) -> String {
    // A log has the events of the interval.
    rates.drops.retain(|drop| drop.drops_per_second > 0.0);
    let up = humantime::format_duration(Duration::from_secs(rates.uptime_seconds as u64));
    let grids = View::ALL.map(|view| view.grid(&rates));
    let tables = grids.iter().filter(|grid| !grid.rows.is_empty()).map(table);
    let blocks: Vec<_> = [format!("{time}  up {up}")].into_iter().chain(tables).collect();
    format!("{}\n", blocks.join("\n"))
}

fn table(grid: &Grid) -> String {
    let names: Vec<_> = grid.columns.iter().map(|column| column.name).collect();
    let mut table = tables::table(&names, grid.numbers.clone());
    for row in &grid.rows {
        table.add_row(row.cells.iter().map(|cell| &cell.text));
    }
    tables::text(&table)
}

#[cfg(test)]
mod tests {
    use super::super::rates::{Dropped, Port};
    use super::*;
    use serde_json::{Value, json};

    fn rates() -> Rates {
        let port = Port { port: "wan".into(), rx_packets_per_second: 1500.0, ..Port::default() };
        let drop =
            |reason: &str, drops_per_second| Dropped { reason: reason.into(), drops_per_second, ..Dropped::default() };
        Rates {
            uptime_seconds: 61.5,
            ports: vec![port],
            drops: vec![drop("busy", 0.0), drop("down", 3.0)],
            ..Rates::default()
        }
    }

    #[test]
    fn a_block_has_the_time_and_the_rates() {
        let shown = show("now", Ok(rates()), Form::Plain).unwrap();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[0], "now  up 1m 1s");
        assert!(lines[2].trim().starts_with("wan") && lines[2].contains("1.50 k"), "{shown}");
        assert!(shown.contains("down") && !shown.contains("busy"), "{shown}");
        assert!(!shown.contains("FROM") && !shown.contains('\u{1b}') && shown.ends_with('\n'), "{shown}");
    }

    #[test]
    fn json_has_the_time_and_the_rates_or_an_error() {
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let line = parse(&show("now", Ok(rates()), Form::Json).unwrap());
        assert_eq!((&line["time"], &line["ports"][0]["rx_packets_per_second"]), (&json!("now"), &json!(1500.0)));
        assert_eq!(line["aggregation"], Value::Null);
        let error = ClientError::Unintelligible("x".into());
        let line = parse(&show("now", Err(&error), Form::Json).unwrap());
        assert_eq!(line.as_object().unwrap().keys().collect::<Vec<_>>(), ["time", "error"]);
    }
}
