//! Results, as a table and a chart.

use crate::draw::curves::{self, Curve, Curves, Panel, Shape};
use crate::record::rounded;
use crate::statistics::median;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

/// Results of a switch with this many flows, of all rounds.
#[derive(Debug)]
pub struct Figure {
    pub switch: String,
    pub flows: u32,
    /// Seconds to add a flow to a table that grows to `flows`.
    pub adding: Vec<f64>,
    /// Bytes of memory that a flow takes.
    pub memory: Vec<f64>,
    /// Seconds to add or delete a flow while frames pass.
    pub changing: Vec<f64>,
    /// Share of frames that are lost while nothing changes.
    pub lost_at_rest: Vec<f64>,
    /// Share of frames that are lost while flows change.
    pub lost_while_changed: Vec<f64>,
}

/// A row of the record.
#[derive(Debug, Serialize)]
pub struct Row {
    switch: String,
    flows: u32,
    add_us: f64,
    bytes: f64,
    change_us: f64,
    lost_percent: [f64; 2],
}

impl Figure {
    pub fn new(switch: &str, flows: u32) -> Figure {
        let none = Vec::new;
        Figure {
            switch: switch.to_owned(),
            flows,
            adding: none(),
            memory: none(),
            changing: none(),
            lost_at_rest: none(),
            lost_while_changed: none(),
        }
    }

    /// Reports whether both are of the same switch with as many flows.
    pub fn is_of(&self, other: &Figure) -> bool {
        (&self.switch, self.flows) == (&other.switch, other.flows)
    }

    /// Adds another round.
    pub fn merge(&mut self, other: &Figure) {
        self.adding.extend(&other.adding);
        self.memory.extend(&other.memory);
        self.changing.extend(&other.changing);
        self.lost_at_rest.extend(&other.lost_at_rest);
        self.lost_while_changed.extend(&other.lost_while_changed);
    }

    /// Returns the medians.
    pub fn row(&self) -> Row {
        let of = |values: &[f64], factor: f64, places| {
            rounded(median(values.iter().copied()).unwrap_or(f64::NAN) * factor, places)
        };
        Row {
            switch: self.switch.clone(),
            flows: self.flows,
            add_us: of(&self.adding, 1e6, 1),
            bytes: of(&self.memory, 1.0, 0),
            change_us: of(&self.changing, 1e6, 1),
            lost_percent: [&self.lost_at_rest, &self.lost_while_changed].map(|lost| of(lost, 100.0, 4)),
        }
    }
}

/// Formats the table.
pub fn table(figures: &[Figure]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["SWITCH", "FLOWS", "ADD µs", "BYTES A FLOW", "CHANGE µs", "LOST %", "LOST % WHILE CHANGED"]);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    for row in figures.iter().map(Figure::row) {
        table.add_row([
            row.switch,
            row.flows.to_string(),
            format!("{:.1}", row.add_us),
            format!("{:.0}", row.bytes),
            format!("{:.1}", row.change_us),
            format!("{:.4}", row.lost_percent[0]),
            format!("{:.4}", row.lost_percent[1]),
        ]);
    }
    format!("Changes of flows, each with a barrier that is waited for\n{}\n", table.trim_fmt())
}

/// Draws the time of a change by the number of flows.
pub fn chart(figures: &[Figure], foot: &str) -> String {
    let mut switches: Vec<&str> = figures.iter().map(|figure| figure.switch.as_str()).collect();
    switches.sort_unstable();
    switches.dedup();
    let panel = |title: &str, value: fn(&Row) -> f64| Panel {
        title: title.to_owned(),
        end: figures.iter().map(|figure| f64::from(figure.flows)).fold(0.0, f64::max),
        curves: switches
            .iter()
            .enumerate()
            .map(|(colour, switch)| Curve {
                name: (*switch).to_owned(),
                colour,
                shape: Shape::Line,
                points: figures
                    .iter()
                    .filter(|figure| figure.switch == *switch)
                    .map(|figure| (f64::from(figure.flows), value(&figure.row())))
                    .collect(),
            })
            .collect(),
    };
    curves::svg(&Curves {
        title: "A flow more, with a barrier that is waited for: microseconds".into(),
        axis: "flows in the table".into(),
        top: None,
        panels: vec![panel("table filled", |row| row.add_us), panel("while frames pass", |row| row.change_us)],
        foot: foot.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_summed_up_by_their_medians() {
        let mut all = Figure::new("one", 1000);
        for round in [1.0, 9.0, 2.0] {
            let mut figure = Figure::new("one", 1000);
            figure.adding.push(round * 1e-6);
            figure.memory.push(round * 100.0);
            figure.changing.extend([round * 1e-5; 2]);
            figure.lost_at_rest.push(0.0);
            figure.lost_while_changed.push(round * 1e-4);
            assert!(all.is_of(&figure));
            all.merge(&figure);
        }
        let row = all.row();
        assert_eq!((row.add_us, row.bytes, row.change_us, row.lost_percent), (2.0, 200.0, 20.0, [0.0, 0.02]));
        let text = table(&[all]);
        assert!(text.contains("0.0200") && text.contains("ADD µs"), "{text}");
    }
}
