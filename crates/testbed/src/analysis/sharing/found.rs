//! Results of all measurements: medians and distributions over all rounds, speed-ups, and the costs that the model is fed with.

use super::distribution::Distribution;
use super::model::{Cost, Costs, Kind, Link, Model};
use super::plan::{Flows, Load, Point, Sharing};
use super::subject::{Part, Sample};
use super::switch::Workers;
use crate::latency::Latency;
use crate::machine::Machine;
use crate::statistics::Spread;
use std::collections::BTreeMap;

/// Cycles of a packet from which on its thread is taken to have lost the processor: such packets do not count.
pub const BOUND: u64 = 10_000;
/// Numbers of threads that the model predicts.
pub const THREADS: std::ops::RangeInclusive<u32> = 1..=16;

/// All results.
pub struct Found {
    pub rig: Machine,
    /// Latencies between the processors: before each round, and after the last.
    pub latencies: Vec<Latency>,
    pub points: Vec<Measured>,
    /// Workers of the switch.
    pub switch: Vec<Workers>,
}

/// The results of a point.
pub struct Measured {
    pub point: Point,
    parts: BTreeMap<Part, Distribution>,
    /// Mean cycles of each part, measurement by measurement, without packets above the bound.
    means: BTreeMap<Part, Vec<f64>>,
    /// Median of the sum of all parts, measurement by measurement.
    medians: Vec<f64>,
    batches: u64,
    packets: u64,
    works: Vec<f64>,
    /// Of the present round, and the medians of those before.
    paces: Vec<f64>,
    rounds: Vec<f64>,
}

impl Measured {
    pub fn new(point: Point) -> Measured {
        let (parts, means) = (BTreeMap::new(), BTreeMap::new());
        let (medians, works, paces, rounds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Measured { point, parts, means, medians, batches: 0, packets: 0, works, paces, rounds }
    }

    /// Adds a measurement.
    pub fn add(&mut self, sample: Sample) {
        let Sample { parts, batches, packets, work, pace } = sample;
        let kept = |(part, distribution): &(Part, Distribution)| (*part, distribution.up_to(BOUND).0);
        let kept: Vec<_> = parts.iter().map(kept).filter(|(_, kept)| kept.total() > 0.0).collect();
        kept.iter().for_each(|(part, kept)| self.means.entry(*part).or_default().push(kept.mean()));
        // Of a part in which all packets were preempted nothing is known.
        if kept.len() == parts.len() {
            self.medians.push(sum(kept.into_iter().map(|(_, kept)| kept)).quantile(0.5));
        }
        parts.iter().for_each(|(part, distribution)| self.parts.entry(*part).or_default().merge(distribution));
        self.batches += batches;
        self.packets += packets;
        self.works.extend(work);
        self.paces.extend(pace);
    }

    /// Ends a round.
    pub fn end_round(&mut self) {
        self.rounds.extend(median(self.paces.drain(..)));
    }

    /// Returns the cycles of each packet for sharing and I/O: the sum of all parts, without packets above the bound.
    pub fn cycles(&self) -> Distribution {
        sum(self.parts.values().map(|part| part.up_to(BOUND).0))
    }

    /// Returns the median of these cycles: the median over all measurements, as processors move, and others disturb some.
    pub fn median(&self) -> f64 {
        median(self.medians.iter().copied()).unwrap_or(0.0)
    }

    /// Returns the mean cycles of each part: the median over all measurements.
    pub fn parts(&self) -> impl Iterator<Item = (Part, f64)> {
        self.means.iter().filter_map(|(part, means)| Some((*part, median(means.iter().copied())?)))
    }

    /// Returns the sum of the parts' means.
    pub fn mean(&self) -> f64 {
        self.parts().map(|(_, mean)| mean).sum()
    }

    /// Returns the greatest share of packets above the bound in any part.
    pub fn excluded(&self) -> f64 {
        self.parts.values().map(|part| part.up_to(BOUND).1).fold(0.0, f64::max)
    }

    /// Returns the mean number of packets in a batch.
    pub fn batch(&self) -> f64 {
        if self.batches > 0 { self.packets as f64 / self.batches as f64 } else { 0.0 }
    }

    /// Returns the cycles of work for each packet.
    pub fn work(&self) -> f64 {
        median(self.works.iter().copied()).unwrap_or(0.0)
    }

    /// Returns the packets per cycle.
    pub fn pace(&self) -> Option<Spread> {
        Spread::of(self.rounds.iter().copied())
    }
}

impl Found {
    pub fn new(rig: Machine, points: Vec<Point>, switch: Vec<Workers>) -> Found {
        Found { rig, latencies: Vec::new(), points: points.into_iter().map(Measured::new).collect(), switch }
    }

    /// Returns a remark if the processors moved while they were measured.
    pub fn note(&self) -> Option<&'static str> {
        let first = self.latencies.first()?.distance;
        let moved = self.latencies.iter().any(|latency| latency.distance != first);
        moved.then_some("the processors moved between near and far, so figures of different rounds do not compare")
    }

    /// Returns the measurements of cycles, without work.
    pub fn costs(&self) -> impl Iterator<Item = &Measured> {
        self.points.iter().filter(|measured| measured.point.work == 0)
    }

    /// Returns the measurements of speed.
    pub fn speeds(&self) -> impl Iterator<Item = &Measured> {
        let is_shown = |point: Point| point.flows == Flows::One || point.sharing == Sharing::Rss;
        self.points.iter().filter(move |measured| is_shown(measured.point) && measured.pace().is_some())
    }

    fn at(&self, point: Point) -> Option<&Measured> {
        self.points.iter().find(|measured| measured.point == point)
    }

    /// Returns how many times as fast as one thread alone, round by round.
    pub fn speed_up(&self, measured: &Measured) -> Option<Spread> {
        let alone = self.at(measured.point.alone())?;
        Spread::of(measured.rounds.iter().zip(&alone.rounds).map(|(pace, alone)| pace / alone))
    }

    /// Returns the growth of the median and of the mean cycles from one thread to as many as were measured in the same
    /// conditions.
    pub fn growth(&self, measured: &Measured) -> Option<[f64; 2]> {
        let one = self.at(Point { threads: 1, ..measured.point })?;
        let growth = [measured.median() / one.median(), measured.mean() / one.mean()];
        growth.iter().all(|growth| growth.is_finite()).then_some(growth)
    }

    /// Returns the growth of the cycles of the switch's workers from one to as many.
    pub fn growth_of_switch(&self, workers: &Workers) -> Option<f64> {
        let one = Point { threads: 1, ..workers.point };
        let one = self.switch.iter().find(|workers| workers.point == one)?;
        Some(workers.cycles() / one.cycles()).filter(|growth| growth.is_finite())
    }

    /// Returns the amounts of work of all measurements: as asked for, and as measured where one thread is alone.
    pub fn works(&self) -> Vec<(u64, f64)> {
        let mut works: Vec<(u64, f64)> = Vec::new();
        for measured in self.speeds().filter(|measured| measured.point.sharing == Sharing::Alone) {
            works.push((measured.point.work, measured.work()));
        }
        works.sort_by_key(|(asked, _)| *asked);
        works
    }

    /// Returns the model's costs; `None` if something was not measured.
    pub fn model_costs(&self) -> Option<Costs> {
        let point = |sharing, threads, load| Point { sharing, threads, flows: Flows::One, load, work: 0 };
        let cost = |sharing, is_part: &dyn Fn(Part) -> bool| {
            let each = |load| {
                let measured = self.at(point(sharing, 1, load))?;
                let cycles = measured.parts().filter(|(part, _)| is_part(*part)).map(|(_, mean)| mean).sum::<f64>();
                Some((measured.batch(), cycles))
            };
            let full = each(Load::Full)?;
            Some(Cost::through([each(Load::Low).unwrap_or(full), full]))
        };
        let locked = cost(Sharing::Locked, &|_| true)?;
        let two = self.at(point(Sharing::Locked, 2, Load::Full))?;
        // With the most work two threads rarely wait for each other: what a batch takes more than with one thread is what
        // moves. Every other turn is after one of the other thread's.
        let (most, _) = self.works().into_iter().last()?;
        let apart = |threads| self.at(Point { work: most, ..point(Sharing::Locked, threads, Load::Full) });
        let moved = if most > 0 { 2.0 * two.batch() * (apart(2)?.mean() - apart(1)?.mean()).max(0.0) } else { 0.0 };
        // Without work they always keep the lock busy: the remaining time of a batch is the hand-over.
        let period = two.batch() / two.pace()?.median;
        Some(Costs {
            alone: cost(Sharing::Alone, &|_| true)?,
            parent: cost(Sharing::StaticRole, &|part| part != Part::Threads)?,
            worker: cost(Sharing::StaticRole, &|part| part == Part::Threads)?,
            locked,
            moved,
            hand_over: (period - locked.of(two.batch()) - moved / 2.0).max(0.0),
        })
    }

    /// Returns the model with this much work.
    pub fn model(&self, work: f64) -> Option<Model> {
        let point = Point { sharing: Sharing::Alone, threads: 1, flows: Flows::One, load: Load::Full, work: 0 };
        Some(Model { costs: self.model_costs()?, work, batch: self.at(point)?.batch() })
    }

    /// Returns the model's prediction for a measurement of speed, in packets per cycle.
    pub fn predicted(&self, measured: &Measured) -> Option<f64> {
        let (_, work) = self.works().into_iter().find(|(asked, _)| *asked == measured.point.work)?;
        Some(self.model(work)?.capacity(kind(measured.point), measured.point.threads.into()))
    }

    /// Returns the least number of threads with which the model fills a link; `None` if that takes more than it is asked about.
    pub fn fills(&self, model: &Model, kind: Kind, link: Link) -> Option<u32> {
        THREADS.into_iter().find(|&threads| self.mpps(model.capacity(kind, threads)) * 1e6 >= link.packets())
    }

    /// Returns millions of packets per second.
    pub fn mpps(&self, pace: f64) -> f64 {
        pace * self.rig.tsc_ghz * 1e3
    }
}

/// Returns the distribution of a sum of parts, as if they were independent.
fn sum(mut parts: impl Iterator<Item = Distribution>) -> Distribution {
    let first = parts.next().unwrap_or_default();
    parts.fold(first, |sum, part| sum.plus(&part))
}

/// Returns the kind that the model has for a measurement.
pub fn kind(point: Point) -> Kind {
    match point.sharing {
        Sharing::Rss if point.flows == Flows::Many => Kind::RssManyFlows,
        Sharing::Alone | Sharing::Rss => Kind::RssOneFlow,
        Sharing::Locked => Kind::Locked,
        Sharing::StaticRole => Kind::StaticRole,
        Sharing::WorkingParent => Kind::WorkingParent,
    }
}

fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

#[cfg(test)]
pub mod tests {
    use super::super::switch;
    use super::*;
    use crate::latency::Distance;
    use nf::crew::Histogram;
    use std::path::Path;

    fn distribution(batches: &[(u64, usize)]) -> Distribution {
        let mut histogram = Histogram::default();
        batches.iter().for_each(|&(cycles, packets)| histogram.add(cycles, packets));
        Distribution::from(&histogram)
    }

    /// Returns results of every point, in which the cycles of a batch depend on sharing, part and load, and one packet in
    /// five hundred was preempted.
    pub fn found() -> Found {
        let (sharings, flows) = ([Sharing::Rss, Sharing::Locked, Sharing::StaticRole], [Flows::One, Flows::Many]);
        let wanted = super::super::plan::Wanted {
            sharings: &sharings,
            threads: &[1, 2],
            flows: &flows,
            loads: &[Load::Low, Load::Full],
            work: &[500],
        };
        let mut rig = Machine::detect(Path::new("/"));
        (rig.tsc_ghz, rig.commit) = (2.0, None);
        let switch =
            switch::points(&sharings, &[1, 2]).into_iter().map(|workers| switch::tests::workers(workers.point));
        let mut found = Found::new(rig, super::super::plan::points(&wanted), switch.collect());
        for measured in &mut found.points {
            let Point { sharing, threads, load, work, .. } = measured.point;
            let packets = if load == Load::Low { 4 } else { 32 };
            let cost = |batch: u64, packet: u64| {
                let whole = (batch + packet * packets as u64) / packets as u64 * packets as u64;
                distribution(&[[(whole, packets)].repeat(16 * 32 / packets), vec![(100_000, 1)]].concat())
            };
            let io = match sharing {
                Sharing::Alone | Sharing::Rss => 320 + 39 * packets as u64,
                Sharing::Locked if work > 0 => 480 + (29 + 10 * u64::from(threads)) * packets as u64,
                Sharing::Locked => (480 + 39 * packets as u64) * u64::from(threads),
                Sharing::StaticRole | Sharing::WorkingParent => 160,
            };
            let mut parts = vec![(Part::Threads, cost(io, 0))];
            if sharing.has_parent() {
                parts.extend([(Part::Receive, cost(320, 19)), (Part::Send, cost(320, 19))]);
            }
            for round in 0..3 {
                let pace = (load == Load::Full && measured.point.all_threads() <= 2).then(|| {
                    let cycles = if sharing == Sharing::Locked && threads == 2 { 90 } else { 50 };
                    f64::from(measured.point.busy_queues()) / (work + cycles + round) as f64
                });
                let parts = parts.clone();
                measured.add(Sample {
                    parts,
                    batches: 10,
                    packets: 10 * packets as u64,
                    work: Some(work as f64),
                    pace,
                });
                measured.end_round();
            }
        }
        found
    }

    fn at(found: &Found, sharing: Sharing, threads: u16, load: Load) -> &Measured {
        found.at(Point { sharing, threads, flows: Flows::One, load, work: 0 }).unwrap()
    }

    #[test]
    fn parts_add_up_and_preempted_packets_do_not_count() {
        let found = found();
        let parent = at(&found, Sharing::StaticRole, 1, Load::Full);
        assert!((parent.excluded() - 1.0 / 513.0).abs() < 1e-9);
        // 5.5 + 29.5 + 29.5, at the middle of buckets of one cycle.
        assert_eq!((parent.median(), parent.mean()), (64.5, 64.5));
        assert_eq!(parent.batch(), 32.0);
    }

    #[test]
    fn cycles_of_more_threads_compare_with_those_of_one() {
        let found = found();
        let growth = |sharing| found.growth(at(&found, sharing, 2, Load::Full)).unwrap();
        assert!(growth(Sharing::Locked).iter().all(|growth| (growth - 2.0).abs() < 0.02));
        assert_eq!(growth(Sharing::StaticRole), [1.0, 1.0]);
    }

    #[test]
    fn the_model_has_the_measured_costs() {
        let found = found();
        let costs = found.model_costs().unwrap();
        let near = |cost: Cost, batch: f64, packet: f64| {
            (cost.batch - batch).abs() < 8.0 && (cost.packet - packet).abs() < 0.3
        };
        assert!(near(costs.alone, 320.0, 39.5), "{costs:?}");
        assert!(near(costs.parent, 640.0, 39.0), "{costs:?}");
        assert!(near(costs.worker, 160.0, 0.5), "{costs:?}");
        // With work two threads take 10 cycles a packet more than one, and each turn in two is after the other's.
        assert!((costs.moved - 2.0 * 32.0 * 10.0).abs() < 33.0, "{costs:?}");
        // Without, a batch of two threads takes 91 cycles a packet instead of 54.5.
        assert!((costs.hand_over + costs.moved / 2.0 - 32.0 * (91.0 - 54.5)).abs() < 1.0, "{costs:?}");
    }

    #[test]
    fn speeds_are_relative_to_one_thread() {
        let found = found();
        assert_eq!(found.works(), [(0, 0.0), (500, 500.0)]);
        let is_locked = |point: Point| point.sharing == Sharing::Locked && point.threads == 2 && point.work == 500;
        let locked = found.speeds().find(|m| is_locked(m.point)).unwrap();
        let speed_up = found.speed_up(locked).unwrap();
        assert!((speed_up.median - 551.0 / 591.0).abs() < 1e-9, "{speed_up:?}");
        assert!(found.predicted(locked).unwrap() > 0.0);
        // With a queue for each of two threads, many flows are twice as fast as one, and one is not.
        let rss =
            |flows| found.speeds().find(|m| m.point == Point { sharing: Sharing::Rss, flows, ..locked.point }).unwrap();
        let [one, many] = [Flows::One, Flows::Many].map(|flows| found.speed_up(rss(flows)).unwrap().median);
        assert!((one - 1.0).abs() < 1e-9 && (many - 2.0).abs() < 1e-9, "{one}, {many}");
        let [one, many] = [Flows::One, Flows::Many].map(|flows| found.predicted(rss(flows)).unwrap());
        assert!((many / one - 2.0).abs() < 1e-9);
    }

    #[test]
    fn processors_that_moved_are_noted() {
        let latency = |nanoseconds, distance| Latency { nanoseconds, distance };
        let mut found = found();
        assert_eq!(found.note(), None);
        found.latencies = vec![latency(40.0, Distance::Near), latency(60.0, Distance::Near)];
        assert_eq!(found.note(), None);
        found.latencies.push(latency(190.0, Distance::Far));
        assert!(found.note().is_some());
    }

    #[test]
    fn without_a_measurement_there_is_no_model() {
        let mut found = found();
        found.points.retain(|measured| measured.point.sharing != Sharing::Locked);
        assert!(found.model(100.0).is_none());
    }
}
