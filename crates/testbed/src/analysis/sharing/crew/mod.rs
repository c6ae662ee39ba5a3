//! Crews of network functions as the subject: the threads of one function share its port.

mod alone;
mod error;
mod function;
mod wire;

use super::distribution::Distribution;
use super::pace;
use super::plan::{Load, Point, Sharing};
use super::subject::{Part, Sample, Subject};
use crate::ring_format::RingFormat;
use function::{Field, Turns};
use loadgen::cpu;
use nf::crew::{Crew, CrewOptions, ParentRole, Sharing as CrewSharing, Verdict, View};
use nf::{Idle, Options, PortOptions, Ports};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wire::Wire;

pub use error::CrewSubjectError;

/// Bytes of the longest frame: buffers are small, so that caches hold those of a whole ring.
const BUFFER: usize = 128;
/// Frames of a full queue: three quarters of a ring, so that the ring for sending gets full in the middle of a measurement, and
/// not at its beginning.
const FILL: [usize; 2] = [3, 4];
/// Pause between two checks that the frames of a burst came back.
const LOOK: Duration = Duration::from_micros(50);
/// Time limit for a measurement, and for the first answer of the device.
const PATIENCE: Duration = Duration::from_secs(60);

/// Conditions that are common to all measurements of a crew.
#[derive(Clone, Copy, Debug)]
pub struct CrewSetup {
    pub ring: RingFormat,
    /// Descriptors of each ring.
    pub queue_size: u16,
    /// Frames at a time under a low load.
    pub few: usize,
    pub cpus: [usize; 2],
    /// Most threads of a measurement.
    pub threads: u16,
}

/// A network function with one port, whose device is in this process.
pub struct CrewSubject {
    setup: CrewSetup,
    directory: TempDir,
    /// By number of queues.
    links: BTreeMap<u16, Link>,
}

/// The port, and its device.
struct Link {
    ports: Ports,
    wire: Wire,
}

impl CrewSubject {
    /// Opens the port with the one queue that most threads share.
    pub fn open(setup: CrewSetup) -> Result<CrewSubject, CrewSubjectError> {
        let directory = tempfile::Builder::new().prefix("testbed-").tempdir().map_err(CrewSubjectError::Directory)?;
        let links = [(1, Link::open(&setup, directory.path(), 1)?)].into();
        Ok(CrewSubject { setup, directory, links })
    }

    /// Returns the number of frames for each queue that gets any: the same under any load, so that as many sent ones are reclaimed.
    fn frames(&self) -> usize {
        usize::from(self.setup.queue_size) * FILL[0] / FILL[1]
    }
}

impl Link {
    /// Opens a port with this number of queue pairs, one for each thread that has its own.
    fn open(setup: &CrewSetup, directory: &Path, queues: u16) -> Result<Link, CrewSubjectError> {
        let socket = directory.join(format!("nf{queues}.sock"));
        let wire = Wire::serve(&socket, queues)?;
        let largest = match queues {
            1 => CrewOptions::new(setup.threads, CrewSharing::StaticRole),
            _ => CrewOptions::new(queues, CrewSharing::Rss),
        };
        let port = PortOptions {
            queue_size: setup.queue_size,
            packed: setup.ring == RingFormat::Packed,
            ..PortOptions::new(socket)
        };
        let options =
            Options { buffer_size: BUFFER, reconnect: false, timeout: Some(PATIENCE), ..Options::new(vec![port]) };
        let ports = Ports::open(largest.adapt(options), &AtomicBool::new(false))?;
        wire.wait()?;
        Ok(Link { ports, wire })
    }
}

impl Subject for CrewSubject {
    type Error = CrewSubjectError;

    fn measure(&mut self, point: &Point) -> Result<Sample, CrewSubjectError> {
        let frames = self.frames() * usize::from(point.busy_queues());
        let CrewSubject { setup, directory, links } = self;
        let Link { ports, wire } = match links.entry(point.queues()) {
            Entry::Occupied(link) => link.into_mut(),
            Entry::Vacant(link) => link.insert(Link::open(setup, directory.path(), point.queues())?),
        };
        let turns = match point.load {
            Load::Full if point.all_threads() <= 2 => Turns::Together(point.busy_threads()),
            // Threads with queues of their own share nothing: one after the other runs as it would alone.
            Load::Full if point.sharing != Sharing::Rss => Turns::Batches,
            _ => Turns::Any,
        };
        let stop = AtomicBool::new(false);
        let field = Field::new(frames, point.busy_queues(), point.work, turns, &stop);
        if point.load == Load::Full {
            wire.fill(frames, point.flows, setup.cpus)?;
        }
        let (ends, has_ended) = mpsc::channel();
        let started = Barrier::new(2);
        let outcome = thread::scope(|scope| {
            let beside = scope.spawn(|| {
                started.wait();
                let outcome = match point.load {
                    Load::Low => trickle(wire, frames, point, setup, &stop),
                    Load::Full => guard(has_ended),
                };
                stop.store(true, Ordering::Relaxed);
                outcome
            });
            // A thread that starts disturbs the others.
            started.wait();
            let outcome = share(ports, point, setup, &field, &stop);
            stop.store(true, Ordering::Relaxed);
            drop(ends);
            let trickled = beside.join().expect("the thread does not panic");
            outcome.and_then(|sample| trickled.map(|()| sample))
        });
        let left = wire.take()?;
        let sample = outcome?;
        if left > 0 {
            return Err(CrewSubjectError::Lost { left, sent: frames });
        }
        let mut times = field.times();
        if point.sharing == Sharing::Rss {
            // Threads whose queues got no frames.
            times.retain(|times| !times.is_empty());
        }
        let pace = (point.load == Load::Full && point.all_threads() <= 2).then(|| pace::pace(&times)).flatten();
        Ok(Sample { work: pace::work(&times), pace, ..sample })
    }
}

/// Brings the frames of a low load, and returns when all came back.
fn trickle(
    wire: &mut Wire,
    frames: usize,
    point: &Point,
    setup: &CrewSetup,
    stop: &AtomicBool,
) -> Result<(), CrewSubjectError> {
    // Not where the parent is.
    cpu::pin(setup.cpus[1])?;
    let began = Instant::now();
    for from in (0..frames).step_by(setup.few) {
        wire.send(from..frames.min(from + setup.few), point.flows)?;
        while wire.take()? > 0 && began.elapsed() < PATIENCE && !stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
        }
    }
    Ok(())
}

/// Waits for the end of a measurement, but not forever. Meanwhile it takes no time of a processor.
fn guard(has_ended: Receiver<Infallible>) -> Result<(), CrewSubjectError> {
    // It ends when the other side is dropped.
    let _ = has_ended.recv_timeout(PATIENCE);
    Ok(())
}

/// Lets the threads share the port until `stop` is set.
fn share(
    ports: &mut Ports,
    point: &Point,
    setup: &CrewSetup,
    field: &Field,
    stop: &AtomicBool,
) -> Result<Sample, CrewSubjectError> {
    let cpus = point.processors(setup.cpus);
    let sharing = match point.sharing {
        Sharing::Alone => {
            let alone::Counted { io, batches, packets } = alone::work(ports, field.function(), cpus[0], stop)?;
            let parts = vec![(Part::Threads, Distribution::from(&io))];
            return Ok(Sample { parts, batches, packets, work: None, pace: None });
        }
        Sharing::Rss => CrewSharing::Rss,
        Sharing::Locked => CrewSharing::Locked,
        Sharing::StaticRole | Sharing::WorkingParent => CrewSharing::StaticRole,
    };
    let parent = if point.sharing == Sharing::WorkingParent { ParentRole::Works } else { ParentRole::Separate };
    // A thread that others keep from its processor has not stalled.
    let options = CrewOptions { patience: PATIENCE, cpus, parent, ..CrewOptions::new(point.threads, sharing) };
    let mut crew = Crew::new(options)?;
    // With more threads than processors, one that polls its own empty queue would keep others from theirs.
    let idle = if point.sharing == Sharing::Rss && point.threads > 2 { Idle::Sleep } else { Idle::Poll };
    crew.run(ports, idle, stop, || {
        let mut function = field.function();
        move |frame: &mut View| {
            function.process(frame);
            Verdict::Back
        }
    })?;
    let mut threads = Distribution::default();
    crew.workers().iter().for_each(|worker| threads.merge(&Distribution::from(&worker.sharing)));
    let mut parts = vec![(Part::Threads, threads)];
    if let Some(parent) = crew.parent() {
        parts.push((Part::Receive, Distribution::from(&parent.receiving)));
        parts.push((Part::Send, Distribution::from(&parent.sending)));
    }
    let batches = crew.workers().iter().map(|worker| worker.batches).sum();
    let packets = crew.workers().iter().map(|worker| worker.packets).sum();
    Ok(Sample { parts, batches, packets, work: None, pace: None })
}

#[cfg(test)]
mod tests {
    use super::super::plan::Flows;
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_sharing_is_measured_under_every_load() {
        // Both on the first processor, which is always there.
        let setup = CrewSetup { ring: RingFormat::Split, queue_size: 256, few: 4, cpus: [0, 0], threads: 3 };
        for ring in [RingFormat::Split, RingFormat::Packed] {
            let mut subject = CrewSubject::open(CrewSetup { ring, ..setup }).unwrap();
            for &sharing in Sharing::value_variants() {
                for (load, flows) in [(Load::Full, Flows::One), (Load::Low, Flows::Many)] {
                    let threads = if sharing == Sharing::Alone { 1 } else { 3 };
                    let point = Point { sharing, threads, flows, load, work: 100 };
                    let sample = subject.measure(&point).unwrap();
                    // Three quarters of each queue that gets frames.
                    let frames = 192 * u64::from(point.busy_queues());
                    assert_eq!(sample.packets, frames, "{point}");
                    assert!((1..=frames).contains(&sample.batches) && sample.work.unwrap() >= 100.0, "{point}");
                    let parts = if sharing.has_parent() { 3 } else { 1 };
                    assert_eq!(sample.parts.len(), parts);
                    for (part, distribution) in sample.parts {
                        assert_eq!(distribution.total(), frames as f64, "{point}: {part:?}");
                    }
                }
            }
        }
    }
}
