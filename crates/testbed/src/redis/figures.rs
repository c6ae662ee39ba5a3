//! Samples of all rounds, and the rows that they make.

use super::benchmark::{Command, Figures};
use super::line::Line;
use crate::record::spread;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// MTU, command, bytes of a value, and line.
type Case = (u16, Command, u32, Line);

/// Samples by case, in the order of rounds.
#[derive(Default)]
pub struct Samples(BTreeMap<Case, Vec<Figures>>);

/// A row of the record. Three numbers are median, least and greatest of the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub mtu: u16,
    pub command: Command,
    pub bytes: u32,
    pub line: Line,
    pub requests_per_s: [f64; 3],
    pub average_ms: [f64; 3],
    pub p50_ms: [f64; 3],
    pub p95_ms: [f64; 3],
    pub p99_ms: [f64; 3],
    /// Requests per second against the first line's, round by round; none for that line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<[f64; 3]>,
}

impl Samples {
    /// Adds the results of a round.
    pub fn add(&mut self, case: Case, figures: Figures) {
        self.0.entry(case).or_default().push(figures);
    }

    /// Returns a row for each case.
    pub fn rows(&self, base: Line) -> Vec<Row> {
        let row = |(&(mtu, command, bytes, line), samples): (&Case, &Vec<Figures>)| {
            let of = |value: fn(&Figures) -> f64, places| spread(samples.iter().map(value), places);
            let base = self.0.get(&(mtu, command, bytes, base)).filter(|_| line != base);
            Row {
                mtu,
                command,
                bytes,
                line,
                requests_per_s: of(|f| f.rate, 0),
                average_ms: of(|f| f.average, 3),
                p50_ms: of(|f| f.p50, 3),
                p95_ms: of(|f| f.p95, 3),
                p99_ms: of(|f| f.p99, 3),
                ratio: base.map(|base| spread(samples.iter().zip(base).map(|(own, base)| own.rate / base.rate), 2)),
            }
        };
        self.0.iter().map(row).collect()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Rows of two lines, one of which is twice as fast.
    pub fn rows() -> Vec<Row> {
        let mut samples = Samples::default();
        for (line, factor) in [(Line::Veth, 1.0), (Line::Exchange, 2.0)] {
            for rate in [100.0, 300.0, 200.0] {
                for bytes in [64, 1024] {
                    for command in [Command::Set, Command::Get] {
                        let figures = Figures { rate: rate * factor, average: 0.5, p50: 0.4, p95: 0.9, p99: 1.25 };
                        samples.add((1500, command, bytes, line), figures);
                    }
                }
            }
        }
        samples.rows(Line::Veth)
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let rows = rows();
        assert_eq!(rows.len(), 8);
        let [veth, exchange] = [&rows[0], &rows[1]];
        assert_eq!((veth.line, veth.requests_per_s, veth.ratio), (Line::Veth, [200.0, 100.0, 300.0], None));
        assert_eq!((exchange.requests_per_s, exchange.ratio), ([400.0, 200.0, 600.0], Some([2.0; 3])));
        let text = serde_json::to_string(veth).unwrap();
        assert!(
            text.starts_with(r#"{"mtu":1500,"command":"GET","bytes":64,"line":"veth","requests_per_s":["#),
            "{text}"
        );
    }
}
