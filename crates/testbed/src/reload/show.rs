//! Gaps as a table and a chart.

use super::figure::{Figure, Program};
use crate::draw::{Line, Lines, svg};
use crate::record::Record;
use crate::statistics::median;
use std::fmt::Write;

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::New => "Millrace",
            Program::Against => "against",
        }
    }
}

/// Returns the table.
pub fn table(record: &Record<Figure>) -> String {
    let mut text = String::from(
        "| beside the watched port | program | longest gap, ms: median | greatest | reload, ms | start, ms |\n|---|---|---|---|---|---|\n",
    );
    for figure in &record.figures {
        let middle = |values: &[f64]| median(values.iter().copied()).unwrap_or(0.0);
        let greatest = figure.gap_ms.iter().copied().fold(0.0, f64::max);
        let [gap, reload, start] = [&figure.gap_ms, &figure.reload_ms, &figure.start_ms].map(|values| middle(values));
        let (changes, program) = (figure.changes.name(figure.ports), figure.program.name());
        let _ = writeln!(text, "| {changes} | {program} | {gap:.2} | {greatest:.2} | {reload:.1} | {start:.0} |");
    }
    let _ = writeln!(text, "\n{}", record.foot().join("\n"));
    text
}

/// Draws the longest gap of each round.
pub fn chart(record: &Record<Figure>) -> String {
    let rounds = record.figures.iter().map(|figure| figure.gap_ms.len()).max().unwrap_or(0);
    let mut panels: Vec<(String, Vec<Line>)> = Vec::new();
    for figure in &record.figures {
        let title = figure.changes.name(figure.ports);
        let values = figure.gap_ms.iter().map(|&gap| Some(gap)).collect();
        let line = Line { name: figure.program.name().into(), values };
        match panels.last_mut() {
            Some((last, lines)) if *last == title => lines.push(line),
            _ => panels.push((title, vec![line])),
        }
    }
    svg(&Lines {
        title: "Longest time between two frames of a port while others change, ms".into(),
        axis: "round".into(),
        marks: (1..=rounds).map(|round| round.to_string()).collect(),
        panels,
        limits: Vec::new(),
        foot: record.foot().join("; "),
    })
}
