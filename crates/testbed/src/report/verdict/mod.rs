//! The verdict: where Millrace is first, where it is not, and by how much.

mod compare;
mod summary;

pub use compare::of;

use super::cast::Cast;
use super::conditions::Conditions;
use super::run::{Contestant, Figures};
use crate::scenario::{Dimension, OfferedRate};
use crate::statistics::Estimate;

/// Differences below this share are of no account.
pub const MARGIN: f64 = 0.01;

/// A metric by which switches are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Packets received, of senders that send as fast as they can.
    Throughput,
    /// Packets received, of those that are offered at a rate.
    Delivered,
    /// The greatest rate without loss.
    Ndr,
    /// The greatest rate with at most 0.5 % of loss.
    Pdr,
    /// The median round trip.
    Median,
    /// The round trip that 99 % are shorter than.
    Tail,
}

/// Result of a comparison for Millrace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is ahead: the whole interval is.
    Ahead,
    /// According to the interval, neither is ahead by more than the margin.
    Even,
    /// It is behind, and so is the whole interval.
    Behind,
    /// It is behind, and the interval does not exclude that it is not.
    PerhapsBehind,
}

/// Millrace and another contestant in one test.
#[derive(Debug)]
pub struct Finding {
    /// The directory of the runs.
    pub set: String,
    /// The metric.
    pub metric: Metric,
    /// The test.
    pub conditions: Conditions,
    /// Millrace, with the mode and the technique that are compared.
    pub millrace: Contestant,
    /// The other one.
    pub rival: Contestant,
    /// Results of Millrace, and of the other one.
    pub results: [Estimate; 2],
    /// Millrace's result by the other one's, round by round.
    pub ratio: Estimate,
    /// Its result.
    pub outcome: Outcome,
    /// Millrace's applications had no time left: it may be faster than it was measured to be.
    pub load_limited: bool,
    /// Distance of the processors, and the runs that are left out for theirs.
    pub distance: String,
    /// Reasons that were given.
    pub notes: Vec<String>,
}

/// All comparisons.
#[derive(Debug)]
pub struct Verdict {
    /// The comparisons.
    pub findings: Vec<Finding>,
    /// Tests in which Millrace has no result and another switch has one.
    pub missing: Vec<String>,
}

impl Metric {
    const ALL: [Metric; 6] =
        [Metric::Throughput, Metric::Delivered, Metric::Ndr, Metric::Pdr, Metric::Median, Metric::Tail];

    /// Returns its description.
    pub fn words(self) -> &'static str {
        match self {
            Metric::Throughput => "throughput",
            Metric::Delivered => "throughput at an offered rate",
            Metric::Ndr => "rate without loss",
            Metric::Pdr => "rate with at most 0.5 % of loss",
            Metric::Median => "median round trip",
            Metric::Tail => "99 % of round trips",
        }
    }

    /// Returns its unit.
    pub fn unit(self) -> &'static str {
        if self.less_is_better() { "µs" } else { "Mpps" }
    }

    /// Reports whether the lesser result is the better one.
    pub fn less_is_better(self) -> bool {
        matches!(self, Metric::Median | Metric::Tail)
    }

    fn name(self) -> &'static str {
        match self {
            Metric::Throughput => "throughput",
            Metric::Delivered => "delivered",
            Metric::Ndr => "ndr",
            Metric::Pdr => "pdr",
            Metric::Median => "p50",
            Metric::Tail => "p99",
        }
    }

    /// Reports whether tests of these conditions have this result.
    fn applies_to(self, dimension: Dimension, rate: OfferedRate) -> bool {
        match self {
            Metric::Throughput => dimension == Dimension::Throughput && rate == OfferedRate::Max,
            // At a share of its own rate, each switch is offered something else.
            Metric::Delivered => dimension == Dimension::Throughput && matches!(rate, OfferedRate::PerSecond(_)),
            Metric::Ndr | Metric::Pdr => rate == OfferedRate::Search,
            Metric::Median | Metric::Tail => dimension == Dimension::Latency && rate != OfferedRate::Search,
        }
    }

    fn of(self, figures: &Figures) -> Option<f64> {
        let rate = match self {
            Metric::Throughput | Metric::Delivered => figures.packets,
            Metric::Ndr => figures.ndr,
            Metric::Pdr => figures.pdr,
            Metric::Median => return figures.latency.map(|latency| latency.p50 / 1e3),
            Metric::Tail => return figures.latency.map(|latency| latency.p99 / 1e3),
        };
        rate.map(|rate| rate / 1e6)
    }

    /// Classifies the ratio of Millrace's result to another one's.
    fn compare(self, ratio: &Estimate) -> Outcome {
        let Estimate { median, low, high, rounds } = *ratio;
        let (median, low, high) =
            if self.less_is_better() { (1.0 / median, 1.0 / high, 1.0 / low) } else { (median, low, high) };
        match () {
            () if median < 1.0 - MARGIN && high < 1.0 && rounds > 1 => Outcome::Behind,
            () if median < 1.0 - MARGIN => Outcome::PerhapsBehind,
            () if low > 1.0 && median > 1.0 + MARGIN && rounds > 1 => Outcome::Ahead,
            () => Outcome::Even,
        }
    }
}

impl Finding {
    /// Returns its name, which notes refer to.
    pub fn name(&self) -> String {
        let Finding { metric, conditions, rival, .. } = self;
        format!("{} {} against {} {}", metric.name(), conditions.name(), rival.switch, rival.technique)
    }

    /// Says in a sentence how the two compare.
    pub fn sentence(&self, cast: &Cast) -> String {
        let Estimate { median, low, high, rounds } = self.ratio;
        let compared = if self.metric.less_is_better() { "times as long as with" } else { "times that of" };
        let interval = if rounds > 1 { format!(" ({low:.2} to {high:.2})") } else { " (one round)".to_owned() };
        let rival = cast.name(&self.rival);
        let doubt = if self.outcome == Outcome::PerhapsBehind { ", not certain" } else { "" };
        let mode = if self.millrace.is_bridge() { "" } else { " with wires between ports" };
        format!("{}{mode}: {median:.2} {compared} {rival}{interval}{doubt}", self.metric.words())
    }

    /// Reports whether Millrace is behind, certain or not.
    pub fn is_behind(&self) -> bool {
        matches!(self.outcome, Outcome::Behind | Outcome::PerhapsBehind)
    }

    /// Says how it ended.
    pub fn outcome(&self) -> &'static str {
        match (self.outcome, self.load_limited) {
            (Outcome::Ahead, true) => "ahead, though the load was the limit",
            (Outcome::Ahead, false) => "ahead",
            (Outcome::Even, true) => "even: the load was the limit",
            (Outcome::Even, false) => "even",
            (Outcome::Behind, _) => "behind",
            (Outcome::PerhapsBehind, _) => "behind, not certain",
        }
    }

    /// Returns how far behind or ahead Millrace is: below 1 it is behind.
    pub fn advantage(&self) -> f64 {
        if self.metric.less_is_better() { 1.0 / self.ratio.median } else { self.ratio.median }
    }
}

impl Verdict {
    /// Returns the comparisons that Millrace lost, or may have lost, the worst first.
    pub fn behind(&self) -> Vec<&Finding> {
        let mut behind: Vec<_> = self.findings.iter().filter(|finding| finding.is_behind()).collect();
        behind.sort_by(|a, b| a.advantage().total_cmp(&b.advantage()));
        behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(metric: Metric, ratios: &[f64]) -> Outcome {
        metric.compare(&Estimate::of(ratios.iter().copied()).unwrap())
    }

    #[test]
    fn a_lead_needs_the_whole_interval_and_a_loss_does_not() {
        let throughput = |ratios: &[f64]| outcome(Metric::Throughput, ratios);
        assert_eq!(throughput(&[1.2, 1.3, 1.4]), Outcome::Ahead);
        assert_eq!(throughput(&[0.98, 1.3, 1.4]), Outcome::Even);
        assert_eq!(throughput(&[1.001, 1.002, 1.003]), Outcome::Even);
        assert_eq!(throughput(&[0.9, 0.8, 0.7]), Outcome::Behind);
        assert_eq!(throughput(&[0.9, 0.8, 1.1]), Outcome::PerhapsBehind);
        assert_eq!(throughput(&[2.0]), Outcome::Even);
        assert_eq!(throughput(&[0.5]), Outcome::PerhapsBehind);
    }

    #[test]
    fn a_shorter_round_trip_is_ahead() {
        assert_eq!(outcome(Metric::Tail, &[0.5, 0.6, 0.7]), Outcome::Ahead);
        assert_eq!(outcome(Metric::Median, &[1.5, 1.6, 0.9]), Outcome::PerhapsBehind);
        assert_eq!(outcome(Metric::Median, &[1.5, 1.6, 1.2]), Outcome::Behind);
    }
}
