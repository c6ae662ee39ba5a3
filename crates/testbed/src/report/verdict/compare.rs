//! Comparisons of Millrace with every other contestant, test by test.

use super::{Finding, Metric, Verdict};
use crate::report::conditions::Conditions;
use crate::report::read::Set;
use crate::report::run::{Contestant, Failed, Run};
use crate::report::selection::{at_one_distance, groups};
use crate::report::study::Study;
use crate::statistics::Estimate;
use std::collections::{BTreeMap, BTreeSet};

/// Share of idle time below which an application was the limit.
const BUSY: f64 = 0.01;

/// Compares Millrace with every other contestant in every test.
pub fn of(study: &Study) -> Verdict {
    let mut verdict = Verdict { findings: Vec::new(), missing: Vec::new() };
    for set in &study.sets {
        for (conditions, runs) in groups(&set.runs, Run::conditions) {
            let Some(comparable) = at_one_distance(&runs) else { continue };
            let distance = format!("Processors {}.{}", comparable.distance, comparable.left_out);
            let test = Test { set, conditions, distance, runs: comparable.runs };
            let (millrace, rivals) = test.contestants();
            let failed = |failed: &&Failed| {
                let contestant = Contestant::of(&failed.point);
                contestant.is_millrace() && failed.conditions() == test.conditions && !millrace.contains(&contestant)
            };
            if let Some(failed) = set.failed.iter().find(failed).filter(|_| !rivals.is_empty()) {
                verdict.missing.push(format!("{}: {}", failed.point, failed.reason));
            }
            for metric in Metric::ALL {
                verdict.findings.extend(rivals.iter().filter_map(|rival| test.finding(metric, &millrace, rival)));
            }
        }
    }
    verdict
}

/// The runs of one test that compare.
struct Test<'s> {
    set: &'s Set,
    conditions: Conditions,
    distance: String,
    runs: Vec<&'s Run>,
}

impl Test<'_> {
    /// Returns Millrace, with each of its techniques, and all others.
    fn contestants(&self) -> (Vec<Contestant>, Vec<Contestant>) {
        let all: BTreeSet<_> = self.runs.iter().map(|run| Contestant::of(&run.point)).collect();
        all.into_iter().partition(Contestant::is_millrace)
    }

    /// Compares Millrace with another one: in the mode that forwards as the other one does, and with the same technique, or else
    /// with the one that Millrace is best with.
    fn finding(&self, metric: Metric, millrace: &[Contestant], rival: &Contestant) -> Option<Finding> {
        let point = &self.runs.first()?.point;
        if !metric.applies_to(point.dimension, point.rate) {
            return None;
        }
        let learns = self.runs_of(rival).all(|run| run.switch.learns);
        let has_patch = millrace.iter().any(Contestant::is_patch);
        let is_alike = |one: &&Contestant| if learns || !has_patch { one.is_bridge() } else { one.is_patch() };
        let millrace: Vec<&Contestant> = millrace.iter().filter(is_alike).collect();
        let same = millrace.iter().copied().find(|contestant| contestant.technique == rival.technique);
        let best = || {
            let results =
                millrace.iter().filter_map(|contestant| Some((self.result(metric, contestant)?.median, *contestant)));
            let better = |a: &(f64, _), b: &(f64, _)| a.0.total_cmp(&b.0);
            let best = if metric.less_is_better() { results.min_by(better) } else { results.max_by(better) };
            best.map(|(_, contestant)| contestant)
        };
        let millrace = same.or_else(best)?;
        let theirs = self.values(metric, rival);
        let ratios =
            self.values(metric, millrace).into_iter().filter_map(|(round, ours)| Some(ours / theirs.get(&round)?));
        let ratio = Estimate::of(ratios.filter(|ratio| ratio.is_finite()))?;
        let idle = self.runs_of(millrace).filter_map(|run| run.figures.idle);
        let mut finding = Finding {
            set: self.set.name.clone(),
            metric,
            conditions: self.conditions.clone(),
            millrace: millrace.clone(),
            rival: rival.clone(),
            results: [self.result(metric, millrace)?, self.result(metric, rival)?],
            ratio,
            outcome: metric.compare(&ratio),
            load_limited: metric == Metric::Throughput && Estimate::of(idle).is_some_and(|idle| idle.median < BUSY),
            distance: self.distance.clone(),
            notes: Vec::new(),
        };
        let name = finding.name();
        let notes = self.set.notes.iter().filter(|note| note.is_of(&name));
        finding.notes = notes.map(|note| note.text.clone()).collect();
        Some(finding)
    }

    fn runs_of(&self, contestant: &Contestant) -> impl Iterator<Item = &Run> {
        self.runs.iter().copied().filter(move |run| Contestant::of(&run.point) == *contestant)
    }

    fn values(&self, metric: Metric, contestant: &Contestant) -> BTreeMap<u32, f64> {
        self.runs_of(contestant).filter_map(|run| Some((run.round, metric.of(&run.figures)?))).collect()
    }

    fn result(&self, metric: Metric, contestant: &Contestant) -> Option<Estimate> {
        Estimate::of(self.values(metric, contestant).into_values())
    }
}
