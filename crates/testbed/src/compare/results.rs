//! Measured and derived results.

use super::options::Compare;
use super::scenario::{Contestant, Scenario};
use crate::latency::{Distance, Latency};
use crate::machine::Machine;
use crate::statistics::Spread;
use crate::transfer::Transfer;
use engine::stats::{Snapshot, WorkerStats};
use loadgen::load::{Report, TouchLevel};
use std::collections::BTreeMap;

/// Results of one comparison.
#[derive(Debug)]
pub struct Results {
    /// Machine of the measurements.
    pub rig: Machine,
    /// Cost of moving cache lines between the processors, before the first measurement.
    pub transfer: Option<Transfer>,
    /// Number of rounds.
    pub rounds: u32,
    /// Seconds of each measurement.
    pub seconds: f64,
    /// The two compared switches.
    pub contestants: [Contestant; 2],
    /// One entry per scenario.
    pub outcomes: Vec<Outcome>,
    /// Remarks for the reader.
    pub notes: Vec<String>,
}

impl Results {
    /// Creates empty results, with remarks on what the load of `compare` shows and what it hides.
    pub fn new(compare: &Compare, contestants: [Contestant; 2], rig: Machine) -> Results {
        Results {
            rig,
            transfer: None,
            rounds: compare.rounds(),
            seconds: compare.seconds(),
            contestants,
            outcomes: Vec::new(),
            notes: notes(compare),
        }
    }
}

/// Returns remarks on the load of a comparison.
fn notes(compare: &Compare) -> Vec<String> {
    let touches_payload = Scenario::all(compare).iter().any(|scenario| scenario.touch == TouchLevel::Payload);
    let notes = [
        (touches_payload, SHARED_CACHES),
        (compare.vxlan, "frames come and go inside VXLAN, and sizes are those of the frames inside"),
        (compare.sink, "the function keeps the frames that it gets: each passes the switch once"),
    ];
    notes.into_iter().filter(|(applies, _)| *applies).map(|(_, note)| note.to_owned()).collect()
}

/// Remark on rows with whole payloads: the load is one thread.
const SHARED_CACHES: &str = "rows with whole payloads flatter what does not copy, so read those with headers first: both functions, or \
                             NIC and function, share a processor, where the lines of a payload move twice with a copy and never \
                             without one";

/// Results of one scenario.
#[derive(Debug)]
pub struct Outcome {
    /// The conditions.
    pub scenario: Scenario,
    /// Measurements in chronological order: the contestants alternate.
    pub runs: Vec<Run>,
    /// Latency between the processors after the last measurement; each run has the one before it.
    pub latency_after: Latency,
}

/// One measurement.
#[derive(Debug)]
pub struct Run {
    /// The switch.
    pub contestant: Contestant,
    /// Counted from 0.
    pub round: u32,
    /// Latency between the processors just before.
    pub latency: Latency,
    /// Millions of frames per second that came through, both directions together.
    pub mpps: f64,
    /// Share of one processor used by the switch, all its threads together.
    pub switch_cpu_share: f64,
    /// Share of one processor used by the load.
    pub load_cpu_share: f64,
    /// Cycles per frame in rounds that moved frames, as counted by the switch itself.
    pub cycles_per_packet: Option<f64>,
    /// Further counters of the switch.
    pub counted: Option<Counted>,
    /// Version of DPDK and of the program that uses it, if that is the switch.
    pub dpdk: Option<String>,
    /// Report of the load, if it writes one.
    pub load: Option<Report>,
}

/// Counters of Millrace between two moments.
#[derive(Debug)]
pub struct Counted {
    /// Cycles in rounds that moved frames, per frame.
    pub cycles_per_packet: f64,
    /// Share of its cycles spent on idle polling.
    pub idle_share: f64,
    /// Frames that ended without being sent, by reason.
    pub drops: BTreeMap<String, u64>,
}

impl Counted {
    /// Computes the difference between two moments.
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

impl Outcome {
    /// Returns the spread of a figure of one contestant, over all rounds that have it.
    pub fn spread(&self, contestant: Contestant, figure: impl Fn(&Run) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.runs.iter().filter(|run| run.contestant == contestant).filter_map(figure))
    }

    /// Returns the first contestant's throughput relative to the second's, round by round.
    pub fn ratio(&self) -> Option<Spread> {
        let pairs = self.runs.chunks_exact(2);
        Spread::of(pairs.map(|pair| pair[0].mpps / pair[1].mpps))
    }

    /// Returns whether the processors were near or far; `None` if they moved.
    pub fn distance(&self) -> Option<Distance> {
        let mut all = self.runs.iter().map(|run| run.latency.distance);
        all.all(|distance| distance == self.latency_after.distance).then_some(self.latency_after.distance)
    }

    /// Returns all latencies between the processors.
    pub fn latencies(&self) -> impl Iterator<Item = Latency> {
        self.runs.iter().map(|run| run.latency).chain([self.latency_after])
    }

    /// Returns the spread of the latency between the processors, in nanoseconds.
    pub fn nanoseconds(&self) -> Option<Spread> {
        Spread::of(self.latencies().map(|latency| latency.nanoseconds))
    }

    /// Returns remarks on the runs for the reader.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.distance().is_none() {
            notes.push(format!("{}: the processors moved, so its figures do not compare", self.scenario));
        }
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

/// A program that polls all the time had to share its processor if it used less than this.
const BUSY: f64 = 0.95;

#[cfg(test)]
pub mod tests {
    use super::super::choices::Forward;
    use super::*;
    use crate::ring_format::RingFormat;
    use clap::Parser;
    use engine::stats::PortStats;

    pub const PAIR: [Contestant; 2] = [Contestant::Millrace(Forward::Patch), Contestant::Testpmd];

    /// Returns an outcome with these rates; the contestants alternate.
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
            scenario: Scenario { ring: RingFormat::Split, size: 64, touch: TouchLevel::Header, functions: 2 },
            runs: rates.iter().enumerate().map(run).collect(),
            latency_after: latency,
        }
    }

    /// Returns results with such an outcome for each of `rates`.
    pub fn results(rates: &[&[f64]]) -> Results {
        Results {
            rig: Machine::detect(std::path::Path::new("/")),
            transfer: Some(Transfer { read: 20.0, write: 17.0 }),
            rounds: 1,
            seconds: 1.0,
            contestants: PAIR,
            outcomes: rates.iter().map(|rates| outcome(rates)).collect(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_run_with_whole_payloads_says_that_these_rows_flatter() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            compare: Compare,
        }
        let notes = |line: &[&str]| notes(&Line::parse_from([&["testbed"], line].concat()).compare);
        assert_eq!(notes(&["--size", "64"]), [""; 0]);
        assert_eq!(notes(&[]), [SHARED_CACHES], "the longest frames are touched whole");
        assert_eq!(notes(&["--load", "wire", "--size", "64", "--touch", "payload", "--vxlan", "--sink"]).len(), 3);
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
        assert!(outcome.notes()[0].contains("moved"));
        outcome.runs[3].latency.distance = Distance::Near;
        assert_eq!(outcome.notes(), [""; 0]);
        outcome.runs[0].switch_cpu_share = 0.5;
        assert_eq!(outcome.notes().len(), 1);
    }

    #[test]
    fn only_events_in_between_count() {
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
