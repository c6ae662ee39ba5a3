//! The results as a table, as a chart, and as they are kept.

use super::super::turns::Timed;
use super::found::{Figure, Parts};
use super::setup::{Setup, Way};
use crate::analysis::found::Found;
use crate::draw::{self, Line, Lines};
use crate::record::{Record, rounded};
use crate::ring_format::RingFormat;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use loadgen::load::TouchLevel;
use serde::Serialize;
use std::collections::BTreeMap;

/// A row as it is kept.
#[derive(Debug, Serialize)]
pub struct Row {
    ring: RingFormat,
    bytes: u16,
    touched: TouchLevel,
    /// Nanoseconds per frame of each part, alone on a processor. Frames of both ways count, for a function too.
    ns: BTreeMap<Way, OfParts>,
    /// Cache lines per frame that came from the other processor, approximately.
    lines: BTreeMap<Way, OfParts>,
    /// Rate of the slowest part, both ways together.
    mpps: BTreeMap<Way, f64>,
    /// Rate with exchanges in relation to that with copies.
    ratio: f64,
}

#[derive(Debug, Serialize)]
struct OfParts {
    function: f64,
    switch: f64,
}

impl OfParts {
    fn of(parts: &Parts, value: impl Fn(&Timed) -> f64) -> OfParts {
        OfParts { function: rounded(value(&parts.function), 1), switch: rounded(value(&parts.switch), 1) }
    }
}

/// Returns the results as they are kept.
pub fn record(found: &Found<Figure>) -> Record<Row> {
    let row = |figure: &Figure| {
        fn by_way<T>(figure: &Figure, value: impl Fn(&Parts) -> T) -> BTreeMap<Way, T> {
            Way::ALL.into_iter().zip(figure.ways.iter().map(value)).collect()
        }
        let Setup { ring, size, touch } = figure.setup;
        Row {
            ring,
            bytes: size,
            touched: touch,
            ns: by_way(figure, |parts| OfParts::of(parts, |part| part.alone / found.rig.tsc_ghz)),
            lines: by_way(figure, |parts| OfParts::of(parts, |part| part.lines(&found.line_cycles))),
            mpps: by_way(figure, |parts| rounded(rate(found, parts), 2)),
            ratio: rounded(figure.ratio(), 2),
        }
    };
    let record = Record::new(&found.rig, &[], found.figures.iter().map(row).collect());
    record.with_cores(found.figures.iter().map(|figure| figure.latency)).with_transfer(Some(found.line_cycles))
}

/// Formats the table: a row with copies and one with exchanges for each setup.
pub fn text(found: &Found<Figure>) -> String {
    let mut table = Table::new();
    let header = ["RING", "SIZE", "TOUCH", "WAY", "FUNCTION ns", "SWITCH ns", "LINES", "Mpps", "SLOWEST", "RATIO"];
    table.load_style(NOTHING).set_header(header);
    for index in [1, 4, 5, 6, 7, 9] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for figure in &found.figures {
        let Setup { ring, size, touch } = figure.setup;
        for (way, parts) in Way::ALL.into_iter().zip(&figure.ways) {
            let ns = |part: &Timed| format!("{:.1}", part.alone / found.rig.tsc_ghz);
            let lines = |part: &Timed| format!("{:.1}", part.lines(&found.line_cycles));
            table.add_row([
                ring.to_string(),
                size.to_string(),
                touch.to_string(),
                way.to_string(),
                ns(&parts.function),
                ns(&parts.switch),
                format!("{} + {}", lines(&parts.function), lines(&parts.switch)),
                format!("{:.2}", rate(found, parts)),
                parts.slowest().1.to_owned(),
                if way == Way::Copy { "-".to_owned() } else { format!("{:.2}", figure.ratio()) },
            ]);
        }
    }
    let distances = found.figures.iter().map(|figure| figure.latency.nanoseconds);
    let (least, most) = distances.fold((f64::MAX, 0.0_f64), |(least, most), ns| (least.min(ns), most.max(ns)));
    format!(
        "{}\n\n{}\nEach part alone on a processor, all others by turns on another one; nanoseconds per frame of either way, medians. \
         LINES:\ncache lines per frame that came from the other processor, of a function and of the switch, from the difference \
         to all\nparts on one processor. Mpps: of the slowest part, both ways together, with a processor for the switch and one for \
         each function.\nBetween the processors: {}; {least:.0} to {most:.0} ns one way.\n",
        table.trim_fmt(),
        found.rig,
        found.line_cycles,
    )
}

/// Returns the rate with a processor for each part, in millions of frames per second.
fn rate(found: &Found<Figure>, parts: &Parts) -> f64 {
    1e3 * found.rig.tsc_ghz / parts.slowest().0
}

/// Draws the rates over the sizes of frames, a panel per ring format and touched part.
pub fn chart(found: &Found<Figure>, marks: &[u16]) -> String {
    let mut panels: Vec<(RingFormat, TouchLevel)> = Vec::new();
    for Setup { ring, touch, .. } in found.figures.iter().map(|figure| figure.setup) {
        if !panels.contains(&(ring, touch)) {
            panels.push((ring, touch));
        }
    }
    let panel = |(ring, touch): (RingFormat, TouchLevel)| {
        let value = |size: u16, way: Way| {
            let figure = found.figures.iter().find(|figure| figure.setup == Setup { ring, size, touch })?;
            Some(rate(found, &figure.ways[way as usize]))
        };
        let line =
            |way: Way| Line { name: way.to_string(), values: marks.iter().map(|&size| value(size, way)).collect() };
        (format!("{ring} rings, {touch} touched"), Way::ALL.map(line).into())
    };
    draw::svg(&Lines {
        title: "A processor for the switch and one for each function: frames of both ways, Mpps".into(),
        axis: "bytes of a frame".into(),
        marks: marks.iter().map(u16::to_string).collect(),
        panels: panels.into_iter().map(panel).collect(),
        limits: Vec::new(),
        foot: found.rig.to_string(),
    })
}
