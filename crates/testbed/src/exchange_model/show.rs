//! The model as a table and a chart.

use super::costs::SIZES;
use super::model::{BATCHES, Figure};
use crate::draw::{Line, Lines, svg};
use crate::record::Record;
use std::fmt::Write;

/// The ways of an exchange, and their names.
type Way = (&'static str, fn(&Figure) -> Option<f64>);
const WAYS: [Way; 6] = [
    ("same chain", |figure| Some(figure.chain)),
    ("zeroed", |figure| Some(figure.zeroed)),
    ("zeroed, guests' faults", |figure| Some(figure.faults)),
    ("zeroed, scattered", |figure| Some(figure.scattered)),
    ("zeroed, in this VM", |figure| Some(figure.here)),
    ("paper, as reported", |figure| figure.paper),
];

/// Returns the least batch from which on a way takes no longer than a copy.
fn break_even(figures: &[Figure], bytes: usize, copy: usize, way: fn(&Figure) -> Option<f64>) -> String {
    let of_size: Vec<_> = figures.iter().filter(|figure| figure.bytes == bytes).collect();
    let wins = |figure: &&&Figure| way(figure).is_some_and(|cycles| cycles <= figure.copy[copy]);
    of_size.iter().find(wins).map_or("never".into(), |figure| figure.batch.to_string())
}

/// Returns the tables.
pub fn table(notes: &[String], figures: &[Figure]) -> String {
    let mut text = format!("{}\n\nCycles of a frame\n\n", notes.join("\n"));
    let names: String = WAYS.iter().map(|(name, _)| format!(" {name} |")).collect();
    let _ = writeln!(text, "| bytes | frames in a call | copy, warm | copy, cold |{names}");
    let _ = writeln!(text, "|{}", "---|".repeat(4 + WAYS.len()));
    for figure in figures {
        let Figure { bytes, batch, copy: [warm, cold], .. } = figure;
        let ways = WAYS.map(|(_, way)| way(figure).map_or(" - |".into(), |cycles| format!(" {cycles:.0} |"))).concat();
        let _ = writeln!(text, "| {bytes} | {batch} | {warm:.0} | {cold:.0} |{ways}");
    }
    let _ = writeln!(text, "\nFrames in a call from which an exchange is faster than a copy, warm / cold\n");
    let _ = writeln!(text, "| bytes |{names}\n|{}", "---|".repeat(1 + WAYS.len()));
    for bytes in SIZES {
        let of = |copy, way| break_even(figures, bytes, copy, way);
        let cells = WAYS.map(|(_, way)| format!(" {} / {} |", of(0, way), of(1, way))).concat();
        let _ = writeln!(text, "| {bytes} |{cells}");
    }
    text
}

/// Draws how many times as long a copy takes: the first one of [`Figure::copy`], or the second.
pub fn chart(record: &Record<Figure>, copy: usize) -> String {
    let panels = SIZES.map(|bytes| {
        let of_size: Vec<_> = record.figures.iter().filter(|figure| figure.bytes == bytes).collect();
        let line = |(name, way): &Way| {
            let ratio = |figure: &&Figure| way(figure).map(|cycles| figure.copy[copy] / cycles);
            Line { name: (*name).into(), values: of_size.iter().map(ratio).collect() }
        };
        (format!("{bytes} bytes"), WAYS.iter().map(line).collect())
    });
    let even = Line { name: "as fast".into(), values: vec![Some(1.0); BATCHES.len()] };
    let of = ["in the caches", "of memory that no cache holds"][copy];
    svg(&Lines {
        title: format!("MODEL: a copy {of}, as a multiple of an exchange (above 1, the exchange is faster)"),
        axis: "frames in a call".into(),
        marks: BATCHES.map(|batch| batch.to_string()).into(),
        panels: panels.into(),
        limits: vec![even],
        foot: record.foot().join("; "),
    })
}
