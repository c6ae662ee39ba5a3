//! Charts of the losses by rate, and of the packets lost in a row at the highest rate.

use super::runs::Runs;
use crate::aggregation::rig::Between;
use crate::aggregation::single_node::{Results, Row};
use crate::draw::{self, Line, Lines};

/// Longest run of each class.
const LENGTHS: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Draws the losses in percent.
pub fn losses(results: &Results) -> String {
    let rates = rates(results);
    let line = |rows: &[&Row]| {
        let lost = |rate: &f64| Some(rows.iter().find(|row| row.rate == *rate)?.spread(|s| s.lost_percent()).median);
        rates.iter().map(lost).collect()
    };
    draw::svg(&Lines {
        title: "Packets lost, %".into(),
        axis: "packets sent, Mpps".into(),
        marks: rates.iter().map(f64::to_string).collect(),
        panels: panels(results, line),
        limits: Vec::new(),
        foot: results.rig.to_string(),
    })
}

/// Draws the lengths of runs at the highest rate.
pub fn runs(results: &Results) -> String {
    let classes = LENGTHS.iter().enumerate().map(|(at, &to)| at.checked_sub(1).map_or(0, |at| LENGTHS[at]) + 1..=to);
    let beyond = LENGTHS[LENGTHS.len() - 1] + 1..=u64::MAX;
    let classes: Vec<_> = classes.chain([beyond]).collect();
    let highest = rates(results).into_iter().fold(0.0, f64::max);
    let line = |rows: &[&Row]| {
        let runs = rows.iter().find(|row| row.rate == highest).map(|row| Runs::of(row));
        classes.iter().map(|class| runs.as_ref()?.percent(class.clone())).collect()
    };
    let mark = |class: &std::ops::RangeInclusive<u64>| match (*class.start(), *class.end()) {
        (_, u64::MAX) => "more".to_owned(),
        (from, to) if from == to => format!("{to}"),
        (_, to) => format!("..{to}"),
    };
    draw::svg(&Lines {
        title: format!("Lost packets by how many were lost in a row, %, {highest} Mpps sent"),
        axis: "packets lost in a row".into(),
        marks: classes.iter().map(mark).collect(),
        panels: panels(results, line),
        limits: Vec::new(),
        foot: results.rig.to_string(),
    })
}

/// Returns all rates, in the order in which they were measured.
fn rates(results: &Results) -> Vec<f64> {
    let mut rates: Vec<f64> = Vec::new();
    for row in &results.rows {
        if !rates.contains(&row.rate) {
            rates.push(row.rate);
        }
    }
    rates
}

/// Returns a panel for each path, with a line for each placement.
fn panels(results: &Results, line: impl Fn(&[&Row]) -> Vec<Option<f64>>) -> Vec<(String, Vec<Line>)> {
    let mut paths: Vec<Between> = results.rows.iter().map(|row| row.case.path).collect();
    paths.dedup();
    let panel = |path: Between| {
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.case.path == path).collect();
        let cases = rows.chunk_by(|a, b| a.case == b.case);
        (
            path.to_string(),
            cases.map(|rows| Line { name: rows[0].case.placement.to_string(), values: line(rows) }).collect(),
        )
    };
    paths.into_iter().map(panel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregation::rig::Placement;
    use crate::aggregation::single_node::tests::{case, results};

    #[test]
    fn every_path_has_its_panel() {
        let all = [
            (Between::AfPacket, Placement::None),
            (Between::AfPacket, Placement::Vhost),
            (Between::Rings, Placement::None),
        ];
        let results = results(&all.map(|(path, placement)| case(path, placement)), &[1.0, 5.0]);
        let losses = losses(&results);
        assert_eq!(losses.matches("<circle").count(), 6);
        let runs = runs(&results);
        assert_eq!(runs.matches("<circle").count(), 30);
        for text in ["5 Mpps", ">..8<", "more", "af_packet", "rings", "vhost"] {
            assert!(runs.contains(text), "{text} in\n{runs}");
        }
    }
}
