//! Markdown table of the results.

use super::results::{Load, Results, Row};
use crate::aggregation::rig::Placement;
use crate::statistics::Spread;
use std::fmt::Write;

/// Formats a table for each path, and remarks for the reader.
pub fn markdown(results: &Results) -> String {
    let mut out = String::new();
    let mut last = None;
    for row in &results.rows {
        // Writing to a string does not fail.
        if last != Some(row.path) {
            let gap = if last.is_some() { "\n" } else { "" };
            let _ = writeln!(
                out,
                "{gap}| {} | bytes | Mpps (min..max) | times none (min..max) | packets a frame | fewer frames | \
                 cycles a packet, A / B | link |\n|---|---|---|---|---|---|---|---|",
                row.path
            );
            last = Some(row.path);
        }
        for placement in row.placements() {
            out += &line(row, placement);
        }
    }
    let _ = writeln!(
        out,
        "\n{}. Medians of {} rounds, {} s at each load, placements in turn; ratios are taken within rounds whose processors \
         did not move.",
        results.rig, results.rounds, results.seconds
    );
    for note in &results.notes {
        let _ = writeln!(out, "\nNote: {note}.");
    }
    out
}

fn line(row: &Row, placement: Placement) -> String {
    let figure = |figure: fn(&Load) -> f64, places: usize| {
        row.spread(placement, figure).map_or("-".to_owned(), |spread| format!("{:.places$}", spread.median))
    };
    let range = |spread: Option<Spread>| {
        spread.map_or("-".to_owned(), |s| format!("{:.2} ({:.2}..{:.2})", s.median, s.min, s.max))
    };
    // Saved share of the frames, compared with one frame per packet.
    let fewer = row.spread(placement, |load| 100.0 * (1.0 - 1.0 / load.packets_a_frame.max(1.0)));
    let link = row.spread(placement, |load| load.link_cycles.unwrap_or(f64::NAN)).filter(|s| s.median.is_finite());
    format!(
        "| {placement} | {} | {} | {} | {} | {:.0} % | {} / {} | {} |\n",
        row.size,
        range(row.spread(placement, |load| load.mpps)),
        range(row.ratio(placement)),
        figure(|load| load.packets_a_frame, 1),
        fewer.map_or(0.0, |s| s.median),
        figure(|load| load.a.cycles, 0),
        figure(|load| load.b.cycles, 0),
        link.map_or("-".to_owned(), |s| format!("{:.0}", s.median)),
    )
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::row;
    use super::*;
    use crate::aggregation::rig::{Between, Program};
    use crate::machine::Machine;

    #[test]
    fn every_path_has_its_table() {
        let results = Results {
            rig: Machine::detect(std::path::Path::new("/")),
            function: Program::default(),
            rounds: 1,
            seconds: 0.1,
            rows: [Between::AfXdp, Between::Ovs].map(|path| row(path, 64, &[[1.0, 4.0]])).into(),
            notes: vec!["beware".to_owned()],
        };
        let text = markdown(&results);
        for expected in ["| af_xdp | bytes", "| ovs | bytes", "4.00 (4.00..4.00)", "94 %", "50 / 60", "beware"] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
    }
}
