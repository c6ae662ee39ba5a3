//! The plan of measurements: ways to share a receive queue, and the conditions of each measurement.

use clap::ValueEnum;
use serde::Serialize;
use std::fmt;

/// A way to share one receive queue among threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// One thread does all: the reference for the others
    Alone,
    /// Each thread has a queue of its own, over which the device spreads flows
    Rss,
    /// Threads take turns at the ports, under a lock
    Locked,
    /// One more thread, the parent, has the ports; the others process the frames that it received
    StaticRole,
    /// One of the threads is the parent, and processes as well
    WorkingParent,
}

impl Sharing {
    /// Reports whether one thread has the ports.
    pub fn has_parent(self) -> bool {
        matches!(self, Sharing::StaticRole | Sharing::WorkingParent)
    }

    /// Reports whether it can have this many threads that process frames.
    pub fn has(self, threads: u16) -> bool {
        self != Sharing::Alone || threads == 1
    }

    /// Returns the number of threads that do not process frames.
    pub fn parents(self) -> u16 {
        u16::from(self == Sharing::StaticRole)
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Sharing::Alone => "alone",
            Sharing::Rss => "rss",
            Sharing::Locked => "locked",
            Sharing::StaticRole => "static-role",
            Sharing::WorkingParent => "working-parent",
        })
    }
}

/// Flows of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Flows {
    /// All frames are of one flow
    One,
    /// Each frame is of another flow than the one before, 64 in all
    Many,
}

impl Flows {
    /// Returns their number.
    pub fn count(self) -> usize {
        match self {
            Flows::One => 1,
            Flows::Many => 64,
        }
    }
}

impl fmt::Display for Flows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Flows::One => "one",
            Flows::Many => "many",
        })
    }
}

/// How many frames wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// A few frames at a time, the next ones after the last have come back
    Low,
    /// The receive queue is full until the last frame was received
    Full,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Load::Low => "low",
            Load::Full => "full",
        })
    }
}

/// The conditions of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub sharing: Sharing,
    /// Threads that process frames.
    pub threads: u16,
    pub flows: Flows,
    pub load: Load,
    /// Cycles of work for each packet.
    pub work: u64,
}

impl Point {
    /// Returns the one thread alone that speed is relative to: with one flow, as flows are the same to it.
    pub fn alone(self) -> Point {
        Point { sharing: Sharing::Alone, threads: 1, flows: Flows::One, ..self }
    }

    /// Returns the number of queues that the device has.
    pub fn queues(self) -> u16 {
        if self.sharing == Sharing::Rss { self.threads } else { 1 }
    }

    /// Returns the number of queues that get frames: the first ones, as the device spreads flows evenly over all.
    pub fn busy_queues(self) -> u16 {
        self.queues().min(self.flows.count() as u16)
    }

    /// Returns the number of threads that get frames.
    pub fn busy_threads(self) -> u16 {
        if self.sharing == Sharing::Rss { self.busy_queues() } else { self.threads }
    }

    /// Returns the number of all threads.
    pub fn all_threads(self) -> u16 {
        self.threads + self.sharing.parents()
    }

    /// Returns the processors of all threads, the parent's first. With two processors, the parent has one of its own.
    pub fn processors(self, cpus: [usize; 2]) -> Vec<usize> {
        let others = usize::from(self.all_threads()) - 1;
        let other = |thread: usize| if self.sharing.has_parent() { cpus[1] } else { cpus[thread % 2] };
        std::iter::once(cpus[0]).chain((1..=others).map(other)).collect()
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Point { sharing, threads, flows, load, work } = self;
        write!(f, "{sharing}, {threads} threads, {flows} flows, {load} load, {work} cycles of work")
    }
}

/// The selection that the command line asks for.
pub struct Wanted<'w> {
    pub sharings: &'w [Sharing],
    pub threads: &'w [u16],
    pub flows: &'w [Flows],
    pub loads: &'w [Load],
    pub work: &'w [u64],
}

/// Returns the measurements of cycles without work, then those of speed with work, which two processors can show.
pub fn points(wanted: &Wanted<'_>) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let mut add = |point: Point| {
        if point.sharing.has(point.threads) && !points.contains(&point) {
            points.push(point);
        }
    };
    // One thread alone is always there, as others are compared with it, and the model needs each sharing with one thread, and two.
    let with = |sharing: Sharing| sharing == Sharing::Alone || wanted.sharings.contains(&sharing);
    let sharings = || Sharing::value_variants().iter().copied().filter(|sharing| with(*sharing));
    for &load in wanted.loads {
        for &flows in wanted.flows {
            for sharing in sharings() {
                for &threads in [1].iter().chain(wanted.threads) {
                    add(Point { sharing, threads, flows, load, work: 0 });
                }
            }
        }
    }
    for &work in [0].iter().chain(wanted.work) {
        for sharing in sharings() {
            for threads in (1..=2).filter(|threads| threads + sharing.parents() <= 2) {
                // Flows matter only to a device that spreads them.
                let many = (sharing == Sharing::Rss).then_some(Flows::Many).filter(|many| wanted.flows.contains(many));
                for flows in [Flows::One].into_iter().chain(many) {
                    add(Point { sharing, threads, flows, load: Load::Full, work });
                }
            }
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Wanted<'static> = Wanted {
        sharings: &[Sharing::Rss, Sharing::Locked, Sharing::StaticRole, Sharing::WorkingParent],
        threads: &[1, 2, 4, 8],
        flows: &[Flows::One, Flows::Many],
        loads: &[Load::Low, Load::Full],
        work: &[200, 1000],
    };

    #[test]
    fn every_combination_is_measured_once() {
        let points = points(&ALL);
        // Cycles: four conditions of one thread alone, and of four sharings with four numbers of threads.
        let (cost, speed): (Vec<Point>, Vec<Point>) = points.iter().copied().partition(|point: &Point| point.work == 0);
        assert_eq!(cost.len(), 4 * (1 + 4 * 4));
        // Speed: alone; with a queue for each, one flow and many, locked, and with a parent that works, one and two threads; and a
        // parent with one.
        assert_eq!(speed.len(), 2 * (1 + 2 * 2 + 2 + 2 + 1));
        assert!(speed.iter().all(|point| point.all_threads() <= 2 && points.contains(&point.alone())));
        assert!((1..points.len()).all(|at| !points[..at].contains(&points[at])));
    }

    #[test]
    fn the_reference_is_always_measured() {
        let points = points(&Wanted { sharings: &[Sharing::Locked], threads: &[8], loads: &[Load::Low], ..ALL });
        let full = |sharing, threads| {
            points.contains(&Point { sharing, threads, flows: Flows::One, load: Load::Full, work: 0 })
        };
        assert!(full(Sharing::Alone, 1) && full(Sharing::Locked, 1) && full(Sharing::Locked, 2));
        assert!(points.iter().all(|point| point.sharing != Sharing::StaticRole));
    }

    #[test]
    fn one_flow_is_in_one_queue_and_many_are_in_all() {
        let of = |sharing, flows| {
            let point = Point { sharing, threads: 8, flows, load: Load::Full, work: 0 };
            [point.queues(), point.busy_queues(), point.busy_threads()]
        };
        assert_eq!(of(Sharing::Rss, Flows::One), [8, 1, 1]);
        assert_eq!(of(Sharing::Rss, Flows::Many), [8, 8, 8]);
        assert_eq!(of(Sharing::Locked, Flows::One), [1, 1, 8]);
    }

    #[test]
    fn a_parent_has_its_processor_to_itself() {
        let of = |sharing, threads| {
            Point { sharing, threads, flows: Flows::One, load: Load::Full, work: 0 }.processors([4, 7])
        };
        assert_eq!(of(Sharing::StaticRole, 3), [4, 7, 7, 7]);
        assert_eq!(of(Sharing::WorkingParent, 3), [4, 7, 7]);
        assert_eq!(of(Sharing::Locked, 3), [4, 7, 4]);
        assert_eq!(of(Sharing::Rss, 4), [4, 7, 4, 7]);
        assert_eq!(of(Sharing::Alone, 1), [4]);
    }
}
