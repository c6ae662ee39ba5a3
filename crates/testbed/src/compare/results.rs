//! What was measured, and what follows from it.

use super::options::{Compare, LoadKind};
use super::rig::Rig;
use super::scenario::{Contestant, Scenario};
use crate::latency::{Distance, Latency};
use crate::load::Report;
use crate::transfer::Transfer;
use engine::stats::{Snapshot, WorkerStats};
use serde::Serialize;
use std::collections::BTreeMap;

/// All of one comparison.
#[derive(Debug, Serialize)]
pub struct Results {
    /// Where it was measured.
    pub rig: Rig,
    /// What lines cost on their way between the processors, before the first measurement.
    pub transfer: Option<Transfer>,
    /// Who sent the frames.
    pub load: LoadKind,
    /// Rounds, and seconds of each measurement.
    pub rounds: u32,
    /// See above.
    pub seconds: f64,
    /// Those that were compared.
    pub contestants: [Contestant; 2],
    /// One entry a scenario.
    pub outcomes: Vec<Outcome>,
    /// What a reader of the figures should know.
    pub notes: Vec<String>,
}

impl Results {
    /// Nothing so far.
    pub fn new(compare: &Compare, contestants: [Contestant; 2], rig: Rig) -> Results {
        Results {
            rig,
            transfer: None,
            load: compare.load,
            rounds: compare.rounds(),
            seconds: compare.seconds(),
            contestants,
            outcomes: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// One scenario.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The conditions.
    pub scenario: Scenario,
    /// The measurements, in the order in which they were made: first one contestant, then the other, and so on.
    pub runs: Vec<Run>,
    /// How far apart the processors were after the last one; before each, see there.
    pub latency_after: Latency,
}

/// One measurement.
#[derive(Debug, Serialize)]
pub struct Run {
    /// The switch.
    pub contestant: Contestant,
    /// Counted from 0.
    pub round: u32,
    /// How far apart the processors were just before.
    pub latency: Latency,
    /// Millions of frames per second that came through, both directions together.
    pub mpps: f64,
    /// Share of one processor that the switch used, all its threads together.
    pub switch_cpu_share: f64,
    /// The same of the load.
    pub load_cpu_share: f64,
    /// Cycles of the switch in rounds that moved frames, per frame, as it counts them itself.
    pub cycles_per_packet: Option<f64>,
    /// What else the switch itself counted.
    pub counted: Option<Counted>,
    /// Version of DPDK, if that is the switch, and of what is around it.
    pub dpdk: Option<String>,
    /// Report of the load, if it makes one.
    pub load: Option<Report>,
}

/// What Millrace counted between two moments.
#[derive(Debug, Serialize)]
pub struct Counted {
    /// Cycles in rounds that moved frames, per frame.
    #[serde(skip)]
    pub cycles_per_packet: f64,
    /// Cycles per frame of each stage, sampled since the start.
    pub stage_cycles_per_packet: BTreeMap<String, f64>,
    /// Share of its cycles that went into polling in vain.
    pub idle_share: f64,
    /// Frames that ended without being sent, by reason.
    pub drops: BTreeMap<String, u64>,
}

impl Counted {
    /// The difference between two moments.
    pub fn between(before: &Snapshot, after: &Snapshot) -> Counted {
        let of = |field: fn(&WorkerStats) -> u64| {
            let sum = |snapshot: &Snapshot| snapshot.workers.iter().map(field).sum::<u64>();
            sum(after).saturating_sub(sum(before)) as f64
        };
        let (busy, idle) = (of(|w| w.busy_cycles), of(|w| w.idle_cycles));
        let mut drops = drops(after);
        for (reason, count) in self::drops(before) {
            if let Some(total) = drops.get_mut(&reason) {
                *total = total.saturating_sub(count);
            }
        }
        drops.retain(|_, count| *count > 0);
        Counted {
            cycles_per_packet: busy / of(|w| w.packets).max(1.0),
            stage_cycles_per_packet: after
                .workers
                .first()
                .map(|w| w.stage_cycles_per_packet.clone())
                .unwrap_or_default(),
            idle_share: idle / (busy + idle).max(1.0),
            drops,
        }
    }
}

fn drops(snapshot: &Snapshot) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    for (reason, count) in snapshot.ports.iter().flat_map(|port| &port.drops) {
        *sum.entry(reason.clone()).or_default() += count;
    }
    sum
}

/// A median with the least and the greatest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Half of the values are below.
    pub median: f64,
    /// Least value.
    pub min: f64,
    /// Greatest value.
    pub max: f64,
}

impl Spread {
    /// `None` of no values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Some(Spread { median, min, max })
    }
}

impl Outcome {
    /// A figure of one contestant, over all rounds that have it.
    pub fn spread(&self, contestant: Contestant, figure: impl Fn(&Run) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.runs.iter().filter(|run| run.contestant == contestant).filter_map(figure))
    }

    /// How many times as much the first got through as the second, round by round.
    pub fn ratio(&self) -> Option<Spread> {
        let pairs = self.runs.chunks_exact(2);
        Spread::of(pairs.map(|pair| pair[0].mpps / pair[1].mpps))
    }

    /// Whether the processors were near or far; `None` if they moved.
    pub fn distance(&self) -> Option<Distance> {
        let mut all = self.runs.iter().map(|run| run.latency.distance);
        all.all(|distance| distance == self.latency_after.distance).then_some(self.latency_after.distance)
    }

    /// Core-to-core latency, in nanoseconds, over all measurements of it.
    pub fn nanoseconds(&self) -> Option<Spread> {
        let all = self.runs.iter().map(|run| run.latency.nanoseconds);
        Spread::of(all.chain([self.latency_after.nanoseconds]))
    }

    /// What a reader should know about the runs.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for run in &self.runs {
            let about = format!("{}, {}, round {}", self.scenario, run.contestant, run.round + 1);
            if let Some(load) = run.load.as_ref().filter(|load| load.has_errors()) {
                notes.push(format!(
                    "{about}: {} lost, {} corrupt, {} late or twice",
                    load.lost, load.corrupt, load.late
                ));
            }
            for (reason, count) in run.counted.iter().flat_map(|counted| &counted.drops) {
                notes.push(format!("{about}: {count} frames dropped: {reason}"));
            }
            for (who, share) in [("switch", run.switch_cpu_share), ("load", run.load_cpu_share)] {
                if share < BUSY {
                    let share = 100.0 * share;
                    notes.push(format!("{about}: the {who} had only {share:.0} % of its processor"));
                }
            }
        }
        notes
    }
}

/// Who polls all the time and has less than this share of a processor did not have it to itself.
const BUSY: f64 = 0.95;

#[cfg(test)]
pub mod tests {
    use super::super::scenario::Forward;
    use super::*;
    use crate::load::TouchLevel;
    use crate::programs::Ring;
    use engine::stats::PortStats;

    pub const PAIR: [Contestant; 2] = [Contestant::Millrace(Forward::Patch), Contestant::Testpmd];

    /// An outcome with these rates, first one contestant, then the other, and so on.
    pub fn outcome(rates: &[f64]) -> Outcome {
        let latency = Latency { nanoseconds: 40.0, distance: Distance::Near };
        let run = |(index, &mpps): (usize, &f64)| Run {
            contestant: PAIR[index % 2],
            round: index as u32 / 2,
            latency,
            mpps,
            switch_cpu_share: 1.0,
            load_cpu_share: 1.0,
            cycles_per_packet: None,
            counted: None,
            dpdk: None,
            load: None,
        };
        Outcome {
            scenario: Scenario { ring: Ring::Split, size: 64, touch: TouchLevel::Header },
            runs: rates.iter().enumerate().map(run).collect(),
            latency_after: latency,
        }
    }

    /// Results with one such outcome for each of `rates`.
    pub fn results(rates: &[&[f64]]) -> Results {
        Results {
            rig: Rig::detect(std::path::Path::new("/")),
            transfer: Some(Transfer { read: 20.0, write: 17.0 }),
            load: LoadKind::Testbed,
            rounds: 1,
            seconds: 1.0,
            contestants: PAIR,
            outcomes: rates.iter().map(|rates| outcome(rates)).collect(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let mut outcome = outcome(&[30.0, 10.0, 10.0, 10.0, 20.0, 10.0]);
        assert_eq!(outcome.ratio(), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(outcome.spread(PAIR[0], |run| Some(run.mpps)).unwrap().median, 20.0);
        assert_eq!(outcome.spread(PAIR[1], |run| run.counted.as_ref().map(|c| c.idle_share)), None);
        assert_eq!(outcome.distance(), Some(Distance::Near));
        outcome.runs[3].latency = Latency { nanoseconds: 200.0, distance: Distance::Far };
        assert_eq!(outcome.distance(), None);
        assert_eq!(outcome.nanoseconds(), Some(Spread { median: 40.0, min: 40.0, max: 200.0 }));
        assert_eq!(outcome.notes(), [""; 0]);
        outcome.runs[0].switch_cpu_share = 0.5;
        assert_eq!(outcome.notes().len(), 1);
    }

    #[test]
    fn medians_of_even_numbers_lie_between() {
        assert_eq!(Spread::of([4.0, 1.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn only_what_happened_in_between_counts() {
        let snapshot = |factor: u64| Snapshot {
            workers: vec![WorkerStats {
                busy_cycles: 300 * factor,
                idle_cycles: 100 * factor,
                packets: 10 * factor,
                ..WorkerStats::default()
            }],
            ports: vec![PortStats {
                drops: [("a".to_owned(), 5), ("b".to_owned(), factor)].into(),
                ..PortStats::default()
            }],
            ..Snapshot::default()
        };
        let counted = Counted::between(&snapshot(1), &snapshot(3));
        assert_eq!((counted.cycles_per_packet, counted.idle_share), (30.0, 0.25));
        assert_eq!(counted.drops, [("b".to_owned(), 2)].into());
    }
}
