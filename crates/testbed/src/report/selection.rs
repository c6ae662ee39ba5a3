//! Selection of comparable runs: those of equal conditions and equal distance of the processors.

use super::conditions::{Axis, Conditions};
use super::run::Run;
use crate::latency::Distance;
use crate::scenario::OfferedRate;

/// Runs that compare.
#[derive(Debug)]
pub struct Comparable<'r> {
    /// Distance of the processors in all of them.
    pub distance: Distance,
    /// The runs.
    pub runs: Vec<&'r Run>,
    /// Says how many runs at other distances are left out; empty, if none are.
    pub left_out: String,
}

/// Groups runs by these conditions, in the order of their first runs.
pub fn groups<'r>(
    runs: impl IntoIterator<Item = &'r Run>,
    conditions: impl Fn(&Run) -> Conditions,
) -> Vec<(Conditions, Vec<&'r Run>)> {
    let mut groups: Vec<(Conditions, Vec<&Run>)> = Vec::new();
    for run in runs {
        let key = conditions(run);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(run),
            None => groups.push((key, vec![run])),
        }
    }
    groups
}

/// Keeps the runs at the distance that most of them had.
pub fn at_one_distance<'r>(runs: &[&'r Run]) -> Option<Comparable<'r>> {
    let count = |distance| runs.iter().filter(|run| run.distance == distance).count();
    let [near, far, moved] = [Some(Distance::Near), Some(Distance::Far), None].map(count);
    let (distance, other, others) =
        if near >= far { (Distance::Near, Distance::Far, far) } else { (Distance::Far, Distance::Near, near) };
    let runs: Vec<_> = runs.iter().copied().filter(|run| run.distance == Some(distance)).collect();
    let parts = [(others, format!("with {other} processors")), (moved, "whose processors moved".to_owned())];
    let parts: Vec<_> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, which)| format!("{n} {which}")).collect();
    let left_out = if parts.is_empty() { String::new() } else { format!(" Runs left out: {}.", parts.join(", ")) };
    (!runs.is_empty()).then_some(Comparable { distance, runs, left_out })
}

/// Keeps the runs at the greatest rate of each test: as fast as possible, or else the greatest that was offered.
pub fn at_greatest_rate<'r>(runs: impl IntoIterator<Item = &'r Run>) -> Vec<&'r Run> {
    let offered = |run: &Run| match run.point.rate {
        OfferedRate::Max => Some(f64::INFINITY),
        OfferedRate::PerSecond(rate) => Some(rate),
        OfferedRate::Search | OfferedRate::OfNdr(_) => None,
    };
    let tests = groups(runs, |run| run.conditions().without(Axis::Rate));
    let greatest = |runs: Vec<&'r Run>| {
        let rate = runs.iter().filter_map(|run| offered(run)).fold(0.0, f64::max);
        runs.into_iter().filter(move |run| offered(run) == Some(rate))
    };
    tests.into_iter().flat_map(|(_, runs)| greatest(runs)).collect()
}
