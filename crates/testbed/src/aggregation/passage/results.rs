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
        let mut foot = format!(
            "\n{rig}. Cores {cores}. Medians of {rounds} rounds of {seconds} s, cases in turn, with min..max.\n"
        );
        notes.iter().for_each(|note| foot += &format!("\nNote: {note}.\n"));
        foot
    }
}
