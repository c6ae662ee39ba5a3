//! What was measured of traffic, and what follows from it.

use super::sample::Sample;
use crate::aggregation::rig::{Between, Placement};
use crate::aggregation::traffic::{Class, Histogram};
use crate::compare::{Rig as Machine, Spread};
use crate::latency::Latency;
use serde::Serialize;

/// All of it.
#[derive(Debug, Serialize)]
pub struct Results {
    /// Where it was measured.
    pub rig: Machine,
    /// How far apart the processors were before the first measurement.
    pub cores: Latency,
    /// Measurements of each row.
    pub rounds: u32,
    /// Seconds of each measurement.
    pub seconds: f64,
    /// The network function passed packets on without looking at them, instead of swapping their MAC addresses.
    pub unseen: bool,
    /// One entry for each case and rate.
    pub rows: Vec<Row>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// Conditions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Case {
    /// By what packets leave the node.
    pub path: Between,
    /// Where packets are split and joined.
    pub placement: Placement,
    /// Packets that come in a row.
    pub train: u16,
    /// They are joined before they come to the node.
    pub joined: bool,
}

/// One case at one rate.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// Millions of packets a second that were sent.
    pub rate: f64,
    /// One measurement a round.
    pub samples: Vec<Sample>,
    /// How long packets took in all rounds, in nanoseconds.
    pub times: Vec<Class>,
}

impl Row {
    /// A figure over all rounds.
    pub fn spread(&self, figure: impl Fn(&Sample) -> f64) -> Spread {
        let none = Spread { median: f64::NAN, min: f64::NAN, max: f64::NAN };
        Spread::of(self.samples.iter().map(figure)).unwrap_or(none)
    }

    /// A figure against that of another row, round by round.
    pub fn ratio(&self, other: &Row, figure: impl Fn(&Sample) -> f64) -> Option<Spread> {
        let pairs = self.samples.iter().zip(&other.samples);
        Spread::of(pairs.map(|(own, others)| figure(own) / figure(others)))
    }

    /// Times of all rounds together, in cycles.
    pub fn histogram(&self) -> Histogram {
        let mut all = Histogram::default();
        self.samples.iter().for_each(|sample| all.merge(&sample.histogram));
        all
    }
}

impl Results {
    /// The row of a case that has this rate.
    pub fn row(&self, case: Case, rate: f64) -> Option<&Row> {
        self.rows.iter().find(|row| row.case == case && row.rate == rate)
    }

    /// The row of the same conditions without aggregation.
    pub fn without(&self, row: &Row) -> Option<&Row> {
        let Case { path, train, .. } = row.case;
        let plain = |other: &&Row| other.case.placement == Placement::None;
        let same = |other: &&Row| (other.case.path, other.case.train, other.rate) == (path, train, row.rate);
        self.rows.iter().find(|other| plain(other) && same(other))
    }

    /// What is beneath every table.
    pub fn foot(&self) -> String {
        let Results { rig, cores, rounds, seconds, notes, .. } = self;
        let does = if self.unseen { "passes packets on unseen" } else { "swaps MAC addresses" };
        let mut foot = format!(
            "\n{rig}. Cores {cores}. The function {does}. Medians of {rounds} rounds of {seconds} s, cases in turn, with \
             min..max.\n"
        );
        notes.iter().for_each(|note| foot += &format!("\nNote: {note}.\n"));
        foot
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::sample::Times;
    use super::*;
    use crate::latency::Distance;
    use std::collections::BTreeMap;

    /// A sample of so many packets, each of which took so many cycles, which are nanoseconds; one in ten was lost.
    fn sample(rate: f64, cycles: u64) -> Sample {
        let mut histogram = Histogram::default();
        (0..90).for_each(|n| histogram.add(cycles + n));
        Sample {
            rate,
            seconds: 0.1,
            offered: 100,
            refused: 10,
            received: 90,
            frames: 9,
            lost: 10,
            strange: 0,
            at_once: 1.0,
            stalls: 0,
            stalled: 0.0,
            traffic_busy: 0.5,
            cycles: 300.0,
            stages: BTreeMap::new(),
            drops: BTreeMap::new(),
            times: Times::of(&histogram, 1e9),
            runs: [(1, 4), (6, 1)].into(),
            histogram,
        }
    }

    /// Results of two rounds with all these cases, each of which takes a microsecond more than the one before.
    pub fn results(cases: &[Case], rates: &[f64]) -> Results {
        let mut rig = Machine::detect(std::path::Path::new("/"));
        rig.tsc_ghz = 1.0;
        let rows = cases.iter().zip(1..).flat_map(|(&case, microseconds)| {
            rates.iter().map(move |&rate| {
                let samples = vec![sample(rate, 1000 * microseconds), sample(rate, 1000 * microseconds)];
                Row { case, rate, samples, times: Vec::new() }
            })
        });
        Results {
            rig,
            cores: Latency { nanoseconds: 40.0, distance: Distance::Near },
            rounds: 2,
            seconds: 0.1,
            unseen: false,
            rows: rows.collect(),
            notes: vec!["beware".to_owned()],
        }
    }

    /// Smooth traffic.
    pub fn case(path: Between, placement: Placement) -> Case {
        Case { path, placement, train: 1, joined: false }
    }

    #[test]
    fn ratios_are_against_the_same_conditions_without_aggregation() {
        let cases = [Between::Rings, Between::AfXdp]
            .map(|path| [Placement::None, Placement::Vhost].map(|placement| case(path, placement)));
        let results = results(&cases.concat(), &[0.1, 1.0]);
        let row = results.row(case(Between::AfXdp, Placement::Vhost), 1.0).unwrap();
        let none = results.without(row).unwrap();
        assert_eq!((none.case, none.rate), (case(Between::AfXdp, Placement::None), 1.0));
        let ratio = row.ratio(none, |sample| sample.times.p50).unwrap();
        assert!((1.30..1.34).contains(&ratio.median), "{ratio:?}");
        assert_eq!(row.histogram().total(), 180);
        assert_eq!(row.spread(|sample| sample.frames_percent()).median, 10.0);
        assert!(results.foot().contains("beware"));
    }
}
