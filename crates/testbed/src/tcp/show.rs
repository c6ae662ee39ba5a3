//! Results as a table in Markdown, and as a chart.

use super::figures::Row;
use crate::draw::{self, Lines};
use crate::hosts::Between;
use crate::record::{Record, rounded};
use std::collections::BTreeSet;

/// Writes the table, with the rig below it.
pub fn markdown(record: &Record<Row>) -> String {
    let mut text = "| MTU | between the hosts | Gbit/s | ratio | GB per second of a processor | ratio |\n\
                    |--:|---|--:|--:|--:|--:|\n"
        .to_owned();
    for row in &record.figures {
        let [speed, cost] = row.ratios.map_or([const { None }; 2], |ratios| ratios.map(Some));
        let ratio = |ratio: Option<[f64; 3]>| ratio.map_or_else(|| "1".to_owned(), with_range);
        text += &format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            row.mtu,
            row.between,
            with_range(row.gbit_per_s),
            ratio(speed),
            with_range(row.gbytes_per_cpu_s),
            ratio(cost)
        );
    }
    let note = record.note.as_deref().unwrap_or_default();
    format!("{text}\nMedians, with least and greatest of the rounds. {note}.\n\n{}\n", record.foot().join("  \n"))
}

fn with_range([median, least, greatest]: [f64; 3]) -> String {
    format!("{median:.2} ({least:.2}..{greatest:.2})")
}

/// Draws both figures by the MTU, in percent of those of the first switch.
pub fn svg(record: &Record<Row>) -> String {
    let rows = &record.figures;
    let mtus: BTreeSet<u16> = rows.iter().map(|row| row.mtu).collect();
    let all: BTreeSet<Between> = rows.iter().map(|row| row.between).collect();
    let panel = |title: &str, figure: usize| {
        let percent = |row: &Row| row.ratios.map_or(100.0, |ratios| rounded(ratios[figure][0] * 100.0, 0));
        let at = |between, mtu| rows.iter().find(|row| (row.between, row.mtu) == (between, mtu)).map(percent);
        let line = |&between: &Between| draw::Line {
            name: between.to_string(),
            values: mtus.iter().map(|&mtu| at(between, mtu)).collect(),
        };
        (title.to_owned(), all.iter().map(line).collect())
    };
    draw::svg(&Lines {
        title: "A TCP stream between two hosts, in percent".to_owned(),
        axis: "MTU".to_owned(),
        marks: mtus.iter().map(u16::to_string).collect(),
        panels: vec![panel("Speed", 0), panel("Bytes per second of a processor", 1)],
        limits: Vec::new(),
        foot: record.foot().join("; "),
    })
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::rows;
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn rows_and_lines_have_all_figures() {
        let record = Record::new(&Machine::detect(std::path::Path::new("/")), &["a note".to_owned()], rows());
        let text = markdown(&record);
        let row = "| 1500 | Millrace, taps | 10.00 (5.00..15.00) | 0.50 (0.50..0.50) | 0.50 (0.50..0.50) | 0.50 (0.50..0.50) |";
        assert!(text.contains(row) && text.contains("a note."), "{text}");
        let picture = svg(&record);
        assert!(picture.matches("<circle").count() == 8 && picture.contains("Millrace, taps"), "{picture}");
    }
}
