//! Text table of the results.

use super::results::Results;
use crate::statistics::Spread;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

/// Number of text columns on the left; the last column is text, too.
const WORDS: usize = 4;

/// Formats the table, the rig, and remarks for the reader.
pub fn text(results: &Results) -> String {
    let [a, b] = results.contestants;
    let mut table = Table::new();
    let header = [
        "RING".to_owned(),
        "SIZE".to_owned(),
        "TOUCH".to_owned(),
        "FUNCTIONS".to_owned(),
        format!("{a} Mpps").to_uppercase().replace("MPPS", "Mpps"),
        format!("{b} Mpps").to_uppercase().replace("MPPS", "Mpps"),
        "RATIO (MIN..MAX)".to_owned(),
        "CYCLES/PACKET".to_owned(),
        "LOAD IDLE".to_owned(),
        "CORES".to_owned(),
    ];
    let columns = header.len();
    table.load_style(NOTHING).set_header(header);
    for index in WORDS..columns - 1 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for outcome in &results.outcomes {
        let rate = |contestant| number(outcome.spread(contestant, |run| Some(run.mpps)), 2);
        // Both figures if both are known: Millrace's bridge against its patch.
        let both = |figure: fn(&super::results::Run) -> Option<f64>, unit: &str, places| {
            let each = [a, b].map(|contestant| outcome.spread(contestant, figure));
            let known: Vec<String> = each.iter().flatten().map(|s| format!("{:.places$}{unit}", s.median)).collect();
            if known.is_empty() { "-".to_owned() } else { known.join(" / ") }
        };
        let ratio = outcome.ratio();
        let range = ratio.map_or(String::new(), |r| format!(" ({:.2}..{:.2})", r.min, r.max));
        let distance = outcome.distance().map_or("moved".to_owned(), |d| d.to_string());
        let nanoseconds = outcome.nanoseconds().map_or(String::new(), |n| format!(" {:.0}..{:.0} ns", n.min, n.max));
        table.add_row([
            outcome.scenario.ring.to_string(),
            outcome.scenario.size.to_string(),
            outcome.scenario.touch.to_string(),
            outcome.scenario.functions.to_string(),
            rate(a),
            rate(b),
            number(ratio, 2) + &range,
            both(|run| run.cycles_per_packet, "", 1),
            both(|run| Some(100.0 * run.load.as_ref()?.idle_cycles), " %", 0),
            distance + &nanoseconds,
        ]);
    }
    let mut text = format!("{}\n\n{}\n", table.trim_fmt(), results.rig);
    text += &format!(
        "Medians of {} rounds of {} s, alternating; both directions together. Ratios are taken round by round.\n\
         Where the load is hardly ever idle, it is the limit, and the switch could do more.\n",
        results.rounds, results.seconds
    );
    if let Some(transfer) = results.transfer {
        text += &format!("Between the processors: {transfer}.\n");
    }
    for note in &results.notes {
        text += &format!("Note: {note}.\n");
    }
    text
}

fn number(spread: Option<Spread>, places: usize) -> String {
    spread.map_or("-".to_owned(), |s| format!("{:.places$}", s.median))
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::results;
    use super::*;

    #[test]
    fn every_figure_is_in_the_table() {
        let text = text(&results(&[&[30.0, 10.0, 20.0, 10.0]]));
        for expected in ["MILLRACE PATCH", "TESTPMD", "25.00", "10.00", "2.50 (2.00..3.00)", "near 40..40 ns"] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
    }
}
