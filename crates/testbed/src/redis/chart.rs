//! Charts: requests per second by the length of values.

use super::benchmark::Command;
use super::figures::Row;
use super::line::Line;
use crate::draw::{self, Lines};
use crate::record::{Record, rounded};
use std::collections::BTreeSet;

/// Draws the rates of a command, with a panel for each MTU.
pub fn svg(record: &Record<Row>, command: &str) -> String {
    let is_of = |row: &&Row| (row.command == Command::Get) == (command == "GET");
    let rows: Vec<&Row> = record.figures.iter().filter(is_of).collect();
    let sizes: BTreeSet<u32> = rows.iter().map(|row| row.bytes).collect();
    let all: BTreeSet<Line> = rows.iter().map(|row| row.line).collect();
    let mtus: BTreeSet<u16> = rows.iter().map(|row| row.mtu).collect();
    let panel = |&mtu: &u16| {
        let rate = |line: Line, bytes: u32| {
            let row = rows.iter().find(|row| (row.mtu, row.line, row.bytes) == (mtu, line, bytes));
            row.map(|row| rounded(row.requests_per_s[0] / 1000.0, 2))
        };
        let line = |&line: &Line| draw::Line {
            name: line.to_string(),
            values: sizes.iter().map(|&bytes| rate(line, bytes)).collect(),
        };
        (format!("MTU {mtu}"), all.iter().map(line).collect())
    };
    draw::svg(&Lines {
        title: format!("Redis, {command}: thousand requests per second"),
        axis: "bytes of a value".to_owned(),
        marks: sizes.iter().map(u32::to_string).collect(),
        panels: mtus.iter().map(panel).collect(),
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
    fn each_line_has_a_point_for_each_size() {
        let machine = Machine::detect(std::path::Path::new("/"));
        let picture = svg(&Record::new(&machine, &[], rows()), "GET");
        assert_eq!(picture.matches("<circle").count(), 4, "{picture}");
        assert!(picture.contains("nf-proxy, exchange") && picture.contains("MTU 1500"), "{picture}");
    }
}
