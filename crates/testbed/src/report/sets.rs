//! Notes to a reader about a directory of runs.

use super::numbers::counted;
use super::read::Set;
use crate::latency::Distance;

impl Set {
    /// Says where, when and how they were made, in a few parts.
    pub fn words(&self) -> Vec<String> {
        let origin = &self.origin;
        let commit = origin.commit.as_ref().map(|commit| format!("Millrace {commit}"));
        let [near, far, moved] = self.distances();
        let distances = [(near, "near"), (far, "far"), (moved, "moved")];
        let distances: Vec<_> =
            distances.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        let runs = format!("{} ({})", counted(self.runs.len(), "run"), distances.join(", "));
        let parts = [
            Some(origin.rig.to_string()),
            origin.other.as_ref().map(|other| format!("second host: {other}")),
            origin.rig.dpdk.clone(),
            commit,
            Some(origin.date.replace('T', " ").replace('Z', " UTC")),
            Some(runs),
        ];
        parts.into_iter().flatten().collect()
    }

    /// Warns of runs that do not compare.
    pub fn warning(&self) -> Option<&'static str> {
        let kinds = self.distances().into_iter().filter(|count| *count > 0).count();
        (kinds > 1).then_some(
            "The processors were not always equally far apart: each figure shows the runs of the distance that most of its runs \
             had, and says which it leaves out.",
        )
    }

    /// Counts runs with near processors, with far ones, and those during which they moved.
    fn distances(&self) -> [usize; 3] {
        let count = |distance| self.runs.iter().filter(|run| run.distance == distance).count();
        [Some(Distance::Near), Some(Distance::Far), None].map(count)
    }

    /// Returns the tests that failed, with the number of rounds and the reason.
    pub fn failures(&self) -> Vec<(String, usize, &str)> {
        let mut failures: Vec<(String, usize, &str)> = Vec::new();
        for failed in &self.failed {
            let point = failed.point.to_string();
            match failures.iter_mut().find(|(other, _, reason)| *other == point && *reason == failed.reason) {
                Some((_, rounds, _)) => *rounds += 1,
                None => failures.push((point, 1, &failed.reason)),
            }
        }
        failures
    }
}
