//! Samples of all rounds, and the rows that they make.

use crate::hosts::Between;
use crate::record::spread;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Speed and cost of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Payload received.
    pub gbit_per_s: f64,
    /// Payload received in a second of one busy processor.
    pub gbytes_per_cpu_s: f64,
}

/// Samples by MTU and switch, in the order of rounds.
#[derive(Default)]
pub struct Samples(BTreeMap<(u16, Between), Vec<Figures>>);

/// A row of the record. Three numbers are median, least and greatest of the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub mtu: u16,
    pub between: Between,
    pub gbit_per_s: [f64; 3],
    pub gbytes_per_cpu_s: [f64; 3],
    /// Both against the first switch, round by round; none for that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratios: Option<[[f64; 3]; 2]>,
}

impl Samples {
    /// Adds the results of a round.
    pub fn add(&mut self, case: (u16, Between), figures: Figures) {
        self.0.entry(case).or_default().push(figures);
    }

    /// Returns a row for each case.
    pub fn rows(&self, base: Between) -> Vec<Row> {
        let values: [fn(&Figures) -> f64; 2] = [|f| f.gbit_per_s, |f| f.gbytes_per_cpu_s];
        let row = |(&(mtu, between), samples): (&(u16, Between), &Vec<Figures>)| {
            let [gbit_per_s, gbytes_per_cpu_s] = values.map(|value| spread(samples.iter().map(value), 2));
            let base = self.0.get(&(mtu, base)).filter(|_| between != base);
            let pairs = |base: &Vec<Figures>| {
                values.map(|value| spread(samples.iter().zip(base).map(|(own, base)| value(own) / value(base)), 2))
            };
            Row { mtu, between, gbit_per_s, gbytes_per_cpu_s, ratios: base.map(pairs) }
        };
        self.0.iter().map(row).collect()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Rows of two switches, one of which has half the speed.
    pub fn rows() -> Vec<Row> {
        let mut samples = Samples::default();
        for (between, factor) in [(Between::Veth, 1.0), (Between::Taps, 0.5)] {
            for speed in [10.0, 30.0, 20.0] {
                for mtu in [1500, 9000] {
                    samples.add((mtu, between), Figures { gbit_per_s: speed * factor, gbytes_per_cpu_s: factor });
                }
            }
        }
        samples.rows(Between::Veth)
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let rows = rows();
        assert_eq!(rows.len(), 4);
        let [veth, taps] = [&rows[0], &rows[1]];
        assert_eq!((veth.between, veth.gbit_per_s, veth.ratios), (Between::Veth, [20.0, 10.0, 30.0], None));
        assert_eq!(
            (taps.gbit_per_s, taps.gbytes_per_cpu_s, taps.ratios),
            ([10.0, 5.0, 15.0], [0.5; 3], Some([[0.5; 3]; 2]))
        );
    }
}
