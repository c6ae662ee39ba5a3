//! The data that the page's script draws.

use crate::report::contents::Report;
use crate::report::figures::{Across, Figure, Panel, Series};
use serde_json::{Value, json};

/// Number of colours and markers; further switches begin again.
pub const LOOKS: usize = 10;

/// Markers, about the point that they mark.
pub const MARKERS: [&str; LOOKS] = [
    "M-4.5 0A4.5 4.5 0 1 0 4.5 0A4.5 4.5 0 1 0 -4.5 0Z",
    "M-4 -4H4V4H-4Z",
    "M0 -5L5 4H-5Z",
    "M0 -5.5L5.5 0L0 5.5L-5.5 0Z",
    "M0 5L5 -4H-5Z",
    "M-5 -1.6H-1.6V-5H1.6V-1.6H5V1.6H1.6V5H-1.6V1.6H-5Z",
    "M-5 0L4 -5V5Z",
    "M5 0L-4 -5V5Z",
    "M-5.5 -2.5H5.5V2.5H-5.5Z",
    "M-2.5 -5.5H2.5V5.5H-2.5Z",
];

/// Dashes of lines, for the techniques of a switch.
pub const DASHES: [&str; 5] = ["none", "7 4", "2 3", "9 3 2 3", "4 2"];

/// Returns the data as JSON that can stand in a script element: no text of it ends the element.
pub fn json(report: &Report) -> String {
    let plots: Vec<Value> = report.figures.iter().flat_map(|figure| plots(report, figure)).collect();
    json!({ "markers": MARKERS, "dashes": DASHES, "plots": plots }).to_string().replace('<', "\\u003c")
}

fn plots<'r>(report: &'r Report, figure: &'r Figure) -> impl Iterator<Item = Value> + 'r {
    let axis = match figure.across {
        Across::Numbers { label, logarithmic } => Some((label, logarithmic)),
        Across::Bars(_) => None,
    };
    let numbered = figure.panels.iter().enumerate().zip(std::iter::repeat(axis));
    numbered.filter_map(move |((number, panel), axis)| axis.map(|axis| plot(report, figure, panel, number, axis)))
}

fn plot(report: &Report, figure: &Figure, panel: &Panel, number: usize, (label, logarithmic): (&str, bool)) -> Value {
    let series = |series: &Series| {
        let look = report.study.cast.look(&series.contestant);
        let spots = series.spots.iter().map(|spot| json!([spot.x, spot.y.median, spot.y.low, spot.y.high]));
        json!({
            "name": report.study.cast.name(&series.contestant),
            "look": look.switch % LOOKS,
            "dashes": look.technique % DASHES.len(),
            "spots": spots.collect::<Vec<_>>(),
        })
    };
    json!({
        "id": format!("{}-{number}", figure.id),
        "across": { "label": label, "logarithmic": logarithmic },
        "up": { "unit": figure.up.unit, "logarithmic": figure.up.logarithmic },
        "series": panel.series.iter().map(series).collect::<Vec<_>>(),
    })
}
