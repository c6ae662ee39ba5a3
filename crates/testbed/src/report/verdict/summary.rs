//! The verdict in a few sentences, and in a row for each rival.

use super::{Finding, Metric, Outcome, Verdict};
use crate::report::cast::Cast;
use crate::report::numbers::counted;
use crate::report::run::Contestant;
use crate::statistics::Estimate;

/// Comparisons with one rival in one metric.
#[derive(Debug, PartialEq)]
pub struct Cell {
    /// Least and greatest ratio of Millrace's result to the rival's.
    pub ratios: [f64; 2],
    /// Comparisons in which Millrace is ahead, and in which it is behind or may be.
    pub ahead: usize,
    /// See `ahead`.
    pub behind: usize,
    /// All of them.
    pub all: usize,
}

impl Verdict {
    /// Says it in a few sentences.
    pub fn sentences(&self, cast: &Cast) -> Vec<String> {
        let mut sentences = Vec::new();
        let rivals = cast.all().iter().filter(|contestant| !contestant.is_millrace()).count();
        if self.findings.is_empty() {
            let why = match (rivals, cast.all().len()) {
                (_, 0) => "no run has a result",
                (0, _) => "no other switch has results",
                (_, all) if all == rivals => "Millrace has no results",
                _ => "no two switches ran under equal conditions",
            };
            sentences.push(format!("Nothing is compared: {why}."));
        } else {
            let tests = self.tests();
            let is_first = |test: &&Vec<&Finding>| test.iter().all(|finding| finding.outcome == Outcome::Ahead);
            let first: Vec<_> = tests.iter().filter(is_first).collect();
            let lost = tests.iter().filter(|test| test.iter().any(|finding| finding.is_behind())).count();
            let unclear = tests.len() - first.len() - lost;
            let next = |test: &Vec<&Finding>| test.iter().map(|finding| finding.advantage()).reduce(f64::min);
            let leads = Estimate::of(first.iter().filter_map(|test| next(test)));
            let by = leads.map(|lead| format!(", half of the time by {:.2} times the next one or more", lead.median));
            let by = by.unwrap_or_default();
            sentences.push(format!("Millrace is first in {} of {}{by}.", first.len(), counted(tests.len(), "test")));
            sentences.push(match lost {
                0 => "In none is another switch ahead of it.".to_owned(),
                lost => format!("In {lost} another switch is ahead of it, or may be."),
            });
            if unclear > 0 {
                sentences.push(format!("In {unclear} no difference from the next one is certain."));
            }
        }
        if !self.missing.is_empty() {
            let tests = counted(self.missing.len(), "test");
            sentences.push(format!("In {tests} more, Millrace failed and another switch did not."));
        }
        sentences
    }

    /// Returns the comparisons of each test, with all rivals.
    fn tests(&self) -> Vec<Vec<&Finding>> {
        let mut tests: Vec<Vec<&Finding>> = Vec::new();
        for finding in &self.findings {
            let is_same = |other: &Finding| {
                (&other.set, other.metric, &other.conditions, &other.millrace)
                    == (&finding.set, finding.metric, &finding.conditions, &finding.millrace)
            };
            match tests.iter_mut().find(|test| is_same(test[0])) {
                Some(test) => test.push(finding),
                None => tests.push(vec![finding]),
            }
        }
        tests
    }

    /// Returns the metrics that were compared.
    pub fn metrics(&self) -> Vec<Metric> {
        let is_there = |metric: &Metric| self.findings.iter().any(|finding| finding.metric == *metric);
        Metric::ALL.into_iter().filter(is_there).collect()
    }

    /// Sums up the comparisons with a rival in a metric, if there are any.
    pub fn cell(&self, rival: &Contestant, metric: Metric) -> Option<Cell> {
        let findings: Vec<_> = self.findings.iter().filter(|f| f.rival == *rival && f.metric == metric).collect();
        let ratios = || findings.iter().map(|finding| finding.ratio.median);
        Some(Cell {
            ratios: [ratios().reduce(f64::min)?, ratios().reduce(f64::max)?],
            ahead: findings.iter().filter(|finding| finding.outcome == Outcome::Ahead).count(),
            behind: findings.iter().filter(|finding| finding.is_behind()).count(),
            all: findings.len(),
        })
    }
}

impl Cell {
    /// Says it in a few words: the ratios, and how often Millrace was ahead.
    pub fn words(&self) -> [String; 2] {
        let [least, greatest] = self.ratios.map(|ratio| format!("{ratio:.2}"));
        let ratios = if least == greatest { format!("{least} ×") } else { format!("{least} to {greatest} ×") };
        let behind = if self.behind > 0 { format!(", behind in {}", self.behind) } else { String::new() };
        [ratios, format!("ahead in {} of {}{behind}", self.ahead, self.all)]
    }
}
