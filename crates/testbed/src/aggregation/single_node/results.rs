//! Measured and derived results of traffic.

use super::sample::Sample;
use crate::aggregation::rig::{Between, Placement};
use crate::latency::Latency;
use crate::machine::Machine;
use crate::statistics::Spread;
use hdrhistogram::Histogram;
use loadgen::traffic;
use serde::Serialize;

/// All results.
#[derive(Debug, Serialize)]
pub struct Results {
    /// Machine of the measurements.
    pub rig: Machine,
    /// Latency between the processors before the first measurement.
    pub cores: Latency,
    /// Measurements of each row.
    pub rounds: u32,
    /// Seconds of each measurement.
    pub seconds: f64,
    /// Whether the network function passed packets on without reading them, instead of swapping their MAC addresses.
    pub unseen: bool,
    /// One entry for each case and rate.
    pub rows: Vec<Row>,
    /// Remarks for the reader.
    pub notes: Vec<String>,
}

/// Conditions of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Case {
    /// Path by which packets leave the node.
    pub path: Between,
    /// Place where packets are split and joined.
    pub placement: Placement,
    /// Packets per train.
    pub train: u16,
    /// Whether they are joined before they reach the node.
    pub joined: bool,
}

/// One case at one rate.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// Millions of packets sent per second.
    pub rate: f64,
    /// One measurement per round.
    pub samples: Vec<Sample>,
    /// Distribution of packet times over all rounds, in nanoseconds.
    pub times: Vec<Class>,
}

/// Number of packet times from one bound to the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Class {
    /// Smallest time of the class.
    pub from: f64,
    /// Smallest time above the class.
    pub to: f64,
    /// Number of packets.
    pub count: u64,
}

/// Returns the classes that have packets, sixteen in each power of two.
pub fn classes(times: &Histogram<u64>) -> Vec<Class> {
    // One significant digit is sixteen classes.
    let mut coarse = Histogram::<u64>::new_with_bounds(times.low(), times.high(), 1).expect("the bounds are in order");
    coarse.add(times).expect("the bounds are the same");
    let class = |value| {
        let (from, to) = (coarse.lowest_equivalent(value) as f64, coarse.next_non_equivalent(value) as f64);
        Class { from, to, count: coarse.count_at(value) }
    };
    coarse.iter_recorded().map(|recorded| class(recorded.value_iterated_to())).collect()
}

impl Row {
    /// Returns the spread of a figure over all rounds.
    pub fn spread(&self, figure: impl Fn(&Sample) -> f64) -> Spread {
        let none = Spread { median: f64::NAN, min: f64::NAN, max: f64::NAN };
        Spread::of(self.samples.iter().map(figure)).unwrap_or(none)
    }

    /// Returns the ratio of a figure to that of another row, round by round.
    pub fn ratio(&self, other: &Row, figure: impl Fn(&Sample) -> f64) -> Option<Spread> {
        let pairs = self.samples.iter().zip(&other.samples);
        Spread::of(pairs.map(|(own, others)| figure(own) / figure(others)))
    }

    /// Returns the times of all rounds together, in cycles.
    pub fn histogram(&self) -> Histogram<u64> {
        let mut all = traffic::times();
        self.samples.iter().for_each(|sample| all.add(&sample.histogram).expect("the bounds are the same"));
        all
    }
}

impl Results {
    /// Returns the row of a case at this rate.
    pub fn row(&self, case: Case, rate: f64) -> Option<&Row> {
        self.rows.iter().find(|row| row.case == case && row.rate == rate)
    }

    /// Returns the row of the same conditions without aggregation.
    pub fn without(&self, row: &Row) -> Option<&Row> {
        let Case { path, train, .. } = row.case;
        let plain = |other: &&Row| other.case.placement == Placement::None;
        let same = |other: &&Row| (other.case.path, other.case.train, other.rate) == (path, train, row.rate);
        self.rows.iter().find(|other| plain(other) && same(other))
    }

    /// Returns the text below every table.
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

    /// Returns a sample of packets that took about `cycles` each, which are nanoseconds; one in ten was lost.
    fn sample(rate: f64, cycles: u64) -> Sample {
        let mut histogram = traffic::times();
        (0..90).for_each(|n| histogram.saturating_record(cycles + n));
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

    /// Returns results of two rounds with these cases, each of which takes a microsecond more than the one before.
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

    /// Returns a case of smooth traffic.
    pub fn case(path: Between, placement: Placement) -> Case {
        Case { path, placement, train: 1, joined: false }
    }

    #[test]
    fn classes_hold_all_times() {
        let mut times = traffic::times();
        [3, 3, 250, 300, 301, 100_000].into_iter().for_each(|time| times.saturating_record(time));
        let classes = classes(&times);
        assert_eq!(classes.iter().map(|class| class.count).collect::<Vec<_>>(), [2, 1, 2, 1]);
        assert_eq!(classes[1], Class { from: 248.0, to: 256.0, count: 1 });
        assert_eq!(classes[2], Class { from: 288.0, to: 304.0, count: 2 });
        assert!(classes.windows(2).all(|pair| pair[0].to <= pair[1].from));
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
        assert_eq!(row.histogram().len(), 180);
        assert_eq!(row.spread(|sample| sample.frames_percent()).median, 10.0);
        assert!(results.foot().contains("beware"));
    }
}
