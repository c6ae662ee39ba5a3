//! Workers of the switch that share the receive queue of a generator, and send to a sink: the cycles of each frame, by the
//! switch's own counters.
//!
//! Two threads make the rounds of all workers, each on a processor of its own, those of one after the other. So there may be more
//! workers than processors, and none of them loses its processor in the middle of a batch to another one. Counters of the switch
//! have sums, so there are means and no distributions.

use super::plan::{Flows, Load, Point, Sharing};
use crate::statistics::Spread;
use engine::port::generator::Generator;
use engine::port::sink::Sink;
use engine::spec::Pace;
use engine::stats::WorkerStats;
use engine::worker::{ByHand, InPlace, Role};
use loadgen::cpu::{self, PinError};
use loadgen::cycles;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Bytes of a frame, without its checksum.
const LEN: u32 = 64;
/// Seconds before a measurement, and of one.
const WARM_UP: f64 = 0.002;
const SECONDS: f64 = 0.02;
/// Most measurements of which one is taken: on a busy machine, a thread may have no processor during one of them.
const ATTEMPTS: usize = 500;

/// The results of some workers that share in some way.
pub struct Workers {
    pub point: Point,
    samples: Vec<Sample>,
}

/// One measurement.
struct Sample {
    /// Cycles of each frame, by step.
    steps: BTreeMap<String, f64>,
    /// Frames of each cycle.
    pace: f64,
}

impl Sample {
    /// Reports whether frames were processed, and released if there is a parent.
    fn is_whole(&self, has_parent: bool) -> bool {
        self.pace > 0.0 && !self.steps.is_empty() && (!has_parent || self.steps.contains_key("release"))
    }
}

/// Returns the measured points: of each of these ways, and of one worker alone. Every queue has frames, so that flows do not
/// matter.
pub fn points(sharings: &[Sharing], threads: &[u16]) -> Vec<Workers> {
    let mut points = Vec::new();
    for sharing in [Sharing::Alone].iter().chain(sharings) {
        for &threads in [1].iter().chain(threads) {
            let point = Point { sharing: *sharing, threads, flows: Flows::Many, load: Load::Full, work: 0 };
            if sharing.has(threads) && !points.contains(&point) {
                points.push(point);
            }
        }
    }
    points.into_iter().map(|point| Workers { point, samples: Vec::new() }).collect()
}

impl Workers {
    /// Measures once, again if not all parts had their turn.
    pub fn measure(&mut self, cpus: [usize; 2]) -> Result<(), PinError> {
        let mut sample = self.attempt(cpus)?;
        for _ in 1..ATTEMPTS {
            if sample.is_whole(self.point.sharing.has_parent()) {
                break;
            }
            sample = self.attempt(cpus)?;
        }
        self.samples.push(sample);
        Ok(())
    }

    fn attempt(&self, cpus: [usize; 2]) -> Result<Sample, PinError> {
        let mut workers = make(self.point);
        let on = self.point.processors(cpus);
        run(&mut workers, &on, WARM_UP)?;
        let before: Vec<_> = workers.iter().map(ByHand::stats).collect();
        let took = run(&mut workers, &on, SECONDS)?;
        let after: Vec<_> = workers.iter().map(ByHand::stats).collect();
        Ok(sample(&before, &after, took))
    }

    /// Returns the cycles of each frame, by step: medians over all measurements.
    pub fn steps(&self) -> BTreeMap<&str, f64> {
        let mut values = BTreeMap::<&str, Vec<f64>>::new();
        for (step, cycles) in self.samples.iter().flat_map(|sample| &sample.steps) {
            values.entry(step).or_default().push(*cycles);
        }
        values.into_iter().filter_map(|(step, values)| Some((step, Spread::of(values)?.median))).collect()
    }

    /// Returns the cycles of each frame.
    pub fn cycles(&self) -> f64 {
        self.steps().values().sum()
    }

    /// Returns the frames of each cycle, if every worker had a processor.
    pub fn pace(&self) -> Option<Spread> {
        let has_processors = self.point.all_threads() <= 2;
        Spread::of(self.samples.iter().map(|sample| sample.pace)).filter(|_| has_processors)
    }
}

/// Makes the workers. A parent that does not process is the first.
fn make(point: Point) -> Vec<ByHand> {
    let input = || Box::new(Generator::new(LEN, Pace::default(), 0, None));
    let count = point.threads.into();
    match point.sharing {
        Sharing::Alone | Sharing::Rss => {
            (0..count).map(|_| ByHand::new(input(), Box::new(Sink), InPlace::Never)).collect()
        }
        Sharing::Locked => ByHand::locked(input(), Box::new(Sink), count),
        Sharing::StaticRole => ByHand::static_role(input(), Box::new(Sink), count, Role::Parent),
        Sharing::WorkingParent => ByHand::static_role(input(), Box::new(Sink), count, Role::WorkingParent),
    }
}

/// Makes rounds of all workers, each on its processor, for some time. Returns it in cycles.
fn run(workers: &mut [ByHand], on: &[usize], seconds: f64) -> Result<u64, PinError> {
    let end = (seconds * cycles::frequency()) as u64;
    let mut by_cpu = BTreeMap::<usize, Vec<&mut ByHand>>::new();
    for (worker, &cpu) in workers.iter_mut().zip(on) {
        by_cpu.entry(cpu).or_default().push(worker);
    }
    let (started, is_over) = (Barrier::new(by_cpu.len()), AtomicBool::new(false));
    let rounds = |cpu: usize, mut workers: Vec<&mut ByHand>| {
        let pinned = cpu::pin(cpu);
        started.wait();
        pinned?;
        let start = cycles::now();
        let mut took = 0;
        while took < end && !is_over.load(Ordering::Relaxed) {
            for worker in &mut workers {
                worker.round();
            }
            took = cycles::now() - start;
        }
        is_over.store(true, Ordering::Relaxed);
        Ok(took)
    };
    thread::scope(|scope| {
        let rounds = &rounds;
        let threads: Vec<_> =
            by_cpu.into_iter().map(|(cpu, workers)| scope.spawn(move || rounds(cpu, workers))).collect();
        let took = threads.into_iter().map(|thread| thread.join().expect("no round panics"));
        took.collect::<Result<Vec<_>, _>>().map(|took| took.into_iter().max().unwrap_or_default())
    })
}

/// Returns the difference between two readings of all workers' counters, which lie `took` cycles apart.
fn sample(before: &[WorkerStats], after: &[WorkerStats], took: u64) -> Sample {
    let between = |count: fn(&WorkerStats) -> u64| {
        let sum = |workers: &[WorkerStats]| workers.iter().map(count).sum::<u64>();
        sum(after) - sum(before)
    };
    let (sampled, released) =
        (between(|worker| worker.sampled_packets), between(|worker| worker.parent_sampled_packets));
    let mut steps = BTreeMap::new();
    // Figures per frame are turned back into sums.
    for (workers, sign) in [(before, -1.0), (after, 1.0)] {
        for worker in workers {
            let of_worker = (&worker.stage_cycles_per_packet, worker.sampled_packets, sampled);
            let of_parent = (&worker.parent_cycles_per_packet, worker.parent_sampled_packets, released);
            for (each, frames, all) in [of_worker, of_parent].into_iter().filter(|(_, _, all)| *all > 0) {
                for (step, cycles) in each {
                    *steps.entry(step.clone()).or_insert(0.0) += sign * cycles * frames as f64 / all as f64;
                }
            }
        }
    }
    Sample { steps, pace: between(|worker| worker.packets) as f64 / took as f64 }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns a result in which each worker spends 20 cycles on a frame, and a parent 10.
    pub fn workers(point: Point) -> Workers {
        let worker = |rounds: u64| WorkerStats {
            packets: 640 * rounds,
            sampled_packets: 32 * rounds,
            stage_cycles_per_packet: [("receive".into(), 5.0), ("forward".into(), 15.0)].into(),
            ..WorkerStats::default()
        };
        let parent = |rounds: u64| WorkerStats {
            parent_sampled_packets: 64 * rounds,
            parent_cycles_per_packet: [("publish".into(), 4.0), ("release".into(), 6.0)].into(),
            ..WorkerStats::default()
        };
        let look = |rounds: u64| {
            let workers = (0..point.threads).map(|_| worker(rounds));
            workers.chain(point.sharing.has_parent().then(|| parent(rounds))).collect::<Vec<_>>()
        };
        Workers { point, samples: vec![sample(&look(1), &look(3), 1000)] }
    }

    #[test]
    fn cycles_are_those_of_a_frame_at_all_workers() {
        let [alone, locked, parent] = [(Sharing::Alone, 1), (Sharing::Locked, 2), (Sharing::StaticRole, 8)]
            .map(|(sharing, threads)| points(&[sharing], &[threads]).pop().unwrap().point)
            .map(workers);
        assert_eq!((alone.cycles(), locked.cycles(), parent.cycles()), (20.0, 20.0, 30.0));
        assert_eq!(parent.steps()["release"], 6.0);
        assert_eq!((locked.pace().unwrap().median, parent.pace().is_none()), (2.0 * 1280.0 / 1000.0, true));
    }

    #[test]
    fn every_way_is_measured_with_every_number_of_workers() {
        let ways = [Sharing::Rss, Sharing::Locked, Sharing::StaticRole, Sharing::WorkingParent];
        let mut points = points(&ways, &[1, 3]);
        assert_eq!(points.len(), 1 + 4 * 2);
        for workers in &mut points {
            // Both on the first processor, which is always there.
            workers.measure([0, 0]).unwrap();
            let (steps, point) = (workers.steps(), workers.point);
            assert_eq!(steps.len(), if point.sharing.has_parent() { 5 } else { 3 }, "{point}: {steps:?}");
            assert!(workers.cycles() > 0.0 && workers.samples[0].pace > 0.0, "{point}");
        }
    }
}
