//! The results as a table, as a chart, and as they are kept.

use super::super::pattern::Pattern;
use super::super::setup::{Setup, sizes};
use super::super::turns::Timed;
use super::found::Figure;
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
    pattern: Pattern,
    ring: RingFormat,
    bytes: u16,
    touched: TouchLevel,
    /// Descriptors of the rings between switch and network function, as "RX:TX".
    #[serde(rename = "virtual")]
    guest: String,
    /// Nanoseconds per frame of each part, alone on a processor.
    ns: BTreeMap<String, f64>,
    /// Cache lines per frame that came from the other processor, approximately.
    lines: BTreeMap<String, f64>,
    /// Rate of the slowest part.
    mpps: f64,
    /// Rate of the network function without a switch.
    no_switch_mpps: f64,
}

/// Returns the results as they are kept.
pub fn record(found: &Found<Figure>) -> Record<Row> {
    let row = |figure: &Figure| {
        let of_parts = |value: &dyn Fn(&Timed) -> f64| {
            figure.parts.iter().map(|(part, timed)| (part.to_string(), rounded(value(timed), 1))).collect()
        };
        let Setup { pattern, ring, size, touch, guest, .. } = figure.setup;
        Row {
            pattern,
            ring,
            bytes: size,
            touched: touch,
            guest: sizes(guest),
            ns: of_parts(&|part| part.alone / found.rig.tsc_ghz),
            lines: of_parts(&|part| part.lines(&found.line_cycles)),
            mpps: rounded(rate(found, figure), 1),
            no_switch_mpps: rounded(without_switch(found, figure), 1),
        }
    };
    let record = Record::new(&found.rig, &[], found.figures.iter().map(row).collect());
    record.with_cores(found.figures.iter().map(|figure| figure.latency)).with_transfer(Some(found.line_cycles))
}

/// Formats the table: nanoseconds and moved lines per frame of each part, and the rate of the pipeline.
pub fn text(found: &Found<Figure>) -> String {
    let mut table = Table::new();
    let header =
        ["PATTERN", "RING", "SIZE", "TOUCH", "VIRTUAL", "SW_R ns", "NF ns", "SW_T ns", "LINES", "Mpps", "SLOWEST"];
    table.load_style(NOTHING).set_header(header.into_iter().chain(["NO SWITCH Mpps"]));
    for index in [2, 4, 5, 6, 7, 8, 9, 11] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for figure in &found.figures {
        let Setup { pattern, ring, size, touch, guest, .. } = figure.setup;
        let timed = figure.parts.iter().map(|(_, timed)| timed);
        let lines: Vec<_> = timed.clone().map(|timed| format!("{:.1}", timed.lines(&found.line_cycles))).collect();
        let mut cells = vec![pattern.to_string(), ring.to_string(), size.to_string(), touch.to_string(), sizes(guest)];
        cells.extend(timed.map(|timed| format!("{:.1}", timed.alone / found.rig.tsc_ghz)));
        cells.push(lines.join(" + "));
        cells.extend([format!("{:.1}", rate(found, figure)), figure.slowest().0.to_string()]);
        cells.push(format!("{:.1}", without_switch(found, figure)));
        table.add_row(cells);
    }
    let distances = found.figures.iter().map(|figure| figure.latency.nanoseconds);
    let (least, most) = distances.fold((f64::MAX, 0.0_f64), |(least, most), ns| (least.min(ns), most.max(ns)));
    format!(
        "{}\n\n{}\nEach part alone on a processor, all others by turns on another one; nanoseconds per frame, medians. LINES: \
         cache lines per frame\nthat came from the other processor, from the difference to all parts on one processor. \
         Mpps: of the slowest part.\nBetween the processors: {}; {least:.0} to {most:.0} ns one way.\n",
        table.trim_fmt(),
        found.rig,
        found.line_cycles,
    )
}

/// Returns the rate of a pipeline with a processor for each part, in millions of frames per second.
fn rate(found: &Found<Figure>, figure: &Figure) -> f64 {
    1e3 * found.rig.tsc_ghz / figure.slowest().1.alone
}

fn without_switch(found: &Found<Figure>, figure: &Figure) -> f64 {
    1e3 * found.rig.tsc_ghz / figure.without_switch
}

/// Draws the rates over the sizes of frames, a panel per ring format and touched part.
pub fn chart(found: &Found<Figure>, marks: &[u16]) -> String {
    let mut panels: Vec<(RingFormat, TouchLevel)> = Vec::new();
    for Setup { ring, touch, .. } in found.figures.iter().map(|figure| figure.setup) {
        if !panels.contains(&(ring, touch)) {
            panels.push((ring, touch));
        }
    }
    panels.sort_by_key(|(ring, touch)| (*touch as u8, *ring as u8));
    let panel = |(ring, touch): (RingFormat, TouchLevel)| {
        let of_panel = |figure: &&Figure| figure.setup.ring == ring && figure.setup.touch == touch;
        let mut patterns: Vec<Pattern> = Vec::new();
        for figure in found.figures.iter().filter(of_panel) {
            if !patterns.contains(&figure.setup.pattern) {
                patterns.push(figure.setup.pattern);
            }
        }
        let first = |size: u16, pattern: Option<Pattern>| {
            let is = |figure: &&Figure| figure.setup.size == size && pattern.is_none_or(|p| figure.setup.pattern == p);
            found.figures.iter().filter(of_panel).find(is)
        };
        let line = |name: String, value: &dyn Fn(u16) -> Option<f64>| Line {
            name,
            values: marks.iter().map(|&size| value(size)).collect(),
        };
        let mut lines: Vec<Line> = patterns
            .iter()
            .map(|&pattern| {
                line(pattern.to_string(), &|size| first(size, Some(pattern)).map(|figure| rate(found, figure)))
            })
            .collect();
        lines.push(line("no switch".into(), &|size| first(size, None).map(|figure| without_switch(found, figure))));
        (format!("{ring} rings, {touch} touched"), lines)
    };
    draw::svg(&Lines {
        title: "A processor for each part: frames through switch, function and switch, Mpps".into(),
        axis: "bytes of a frame".into(),
        marks: marks.iter().map(u16::to_string).collect(),
        panels: panels.into_iter().map(panel).collect(),
        limits: Vec::new(),
        foot: found.rig.to_string(),
    })
}
