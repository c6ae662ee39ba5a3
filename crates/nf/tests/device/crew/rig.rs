//! A crew on one port, and the device behind the port.

use crate::echo::{Echo, rest};
use nf::crew::{Crew, CrewError, CrewOptions, ParentCounters, ParentRole, Sharing, Verdict, View, WorkerCounters};
use nf::{Counters, Idle, Options, PortOptions, Ports};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use vhost_user::Mode;

/// Time limit for events that are certain to come.
pub const DEADLINE: Duration = Duration::from_secs(120);
/// Longer than any test takes.
pub const NEVER: Duration = Duration::from_secs(3600);
/// Queue pairs that the device has.
const QUEUE_PAIRS: u16 = 8;

/// A kind of crew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub sharing: Sharing,
    pub parent: ParentRole,
}

pub const SEPARATE: Kind = Kind { sharing: Sharing::StaticRole, parent: ParentRole::Separate };
pub const WORKS: Kind = Kind { sharing: Sharing::StaticRole, parent: ParentRole::Works };
pub const LOCKED: Kind = Kind { sharing: Sharing::Locked, parent: ParentRole::Separate };
pub const RSS: Kind = Kind { sharing: Sharing::Rss, parent: ParentRole::Separate };
pub const ALL: [Kind; 4] = [SEPARATE, WORKS, LOCKED, RSS];

/// Frames in flight at a time: fewer than a queue holds.
pub const WINDOW: u64 = 128;

/// Where the number and the flow of a frame stand.
pub const NUMBER: std::ops::Range<usize> = 14..22;
pub const FLOW: usize = 22;

pub fn crew(workers: u16, Kind { sharing, parent }: Kind) -> CrewOptions {
    CrewOptions { patience: NEVER, parent, ..CrewOptions::new(workers, sharing) }
}

/// Returns frame `number` of `len` bytes.
pub fn frame(number: u64, flow: u8, len: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..len as u64).map(|at| (at * 31 + number * 7) as u8).collect();
    frame[NUMBER].copy_from_slice(&number.to_be_bytes());
    frame[FLOW] = flow;
    frame
}

pub fn number(frame: &[u8]) -> u64 {
    u64::from_be_bytes(frame[NUMBER].try_into().unwrap())
}

/// Processes a frame as workers do: inverts all bytes but the number.
pub fn invert(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
}

/// Inverts a frame, whatever the number of its buffers.
pub fn process(view: &mut View) -> u64 {
    let number = number(view);
    view.chunks_mut().for_each(invert);
    view[NUMBER].copy_from_slice(&number.to_be_bytes());
    number
}

/// Returns frame `number` as workers leave it.
pub fn processed(number: u64, flow: u8, len: usize) -> Vec<u8> {
    let mut frame = frame(number, flow, len);
    invert(&mut frame);
    frame[NUMBER].copy_from_slice(&number.to_be_bytes());
    frame
}

/// The device's side of a test.
pub struct Rig<'s> {
    pub device: Option<Echo>,
    pub socket: PathBuf,
    /// Queues that the device spreads flows over.
    pub queues: usize,
    pub stop: &'s AtomicBool,
    /// Whether the crew has ended.
    pub ended: &'s AtomicBool,
}

impl Rig<'_> {
    pub fn device(&self) -> &Echo {
        self.device.as_ref().unwrap()
    }

    /// Sends a frame once there is room for it. Returns false if the crew ends before.
    pub fn send(&self, frame: &[u8]) -> bool {
        wait("room for a frame", || {
            let sent = self.device().inject_at(usize::from(frame[FLOW]) % self.queues, frame);
            (sent || self.ended.load(Ordering::Relaxed)).then_some(sent)
        })
    }

    /// Sends frames of `numbers`, and returns all that come back, as many.
    pub fn exchange(&self, numbers: std::ops::Range<u64>, make: impl Fn(u64) -> Vec<u8>) -> Vec<Vec<u8>> {
        let (first, mut received) = (numbers.start, Vec::new());
        for number in numbers.clone() {
            self.send(&make(number));
            wait("frames to come back", || {
                received.extend(self.device().take());
                (number - first < received.len() as u64 + WINDOW).then_some(())
            });
        }
        self.collect(&mut received, (numbers.end - first) as usize);
        received
    }

    pub fn collect(&self, received: &mut Vec<Vec<u8>>, count: usize) {
        wait("all frames to come back", || {
            received.extend(self.device().take());
            (received.len() >= count).then_some(())
        });
    }
}

impl Drop for Rig<'_> {
    /// Ends the crew, also if the test fails.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

pub fn wait<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < DEADLINE, "waited for {what}");
        rest();
    }
}

/// The outcome and the counters of a crew that has ended.
pub struct Ended {
    pub outcome: Result<(), CrewError>,
    pub parent: Option<ParentCounters>,
    pub workers: Vec<WorkerCounters>,
    pub port: Counters,
    /// Free buffers of the first worker's ports, and those that are free when nothing is in flight.
    pub free: [usize; 2],
}

impl Ended {
    pub fn dropped(&self, reason: &str) -> u64 {
        self.port.dropped.named().find(|(name, _)| *name == reason).map_or(0, |(_, count)| count)
    }

    /// Checks that each received frame was sent, or dropped for a reason, and that no buffer is lost.
    pub fn is_conserved(&self) {
        let Counters { received, transmitted, full, dropped, .. } = self.port;
        let dropped: u64 = dropped.named().map(|(_, count)| count).sum();
        assert_eq!(received, transmitted + full + dropped, "{:?}", self.port);
        assert_eq!(self.free[0], self.free[1], "buffers are lost");
    }
}

/// Runs a crew on one port, with `test` as the device. `work` makes the function of each worker.
pub fn run<W>(
    options: CrewOptions,
    change: impl FnOnce(&mut Options) + Send,
    work: impl Fn() -> W + Send,
    test: impl FnOnce(&mut Rig),
) -> Ended
where
    W: FnMut(&mut View<'_>) -> Verdict + Send,
{
    run_idle(Idle::Sleep, options, change, work, test)
}

pub fn run_idle<W>(
    idle: Idle,
    options: CrewOptions,
    change: impl FnOnce(&mut Options) + Send,
    work: impl Fn() -> W + Send,
    test: impl FnOnce(&mut Rig),
) -> Ended
where
    W: FnMut(&mut View<'_>) -> Verdict + Send,
{
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("port");
    let (stop, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let queues = if options.sharing == Sharing::Rss { options.workers.into() } else { 1 };
        let device = Some(device(&socket));
        let mut rig = Rig { device, socket: socket.clone(), queues, stop: &stop, ended: &ended };
        let crew = scope.spawn(|| {
            let mut crew = Crew::new(options).unwrap();
            let mut ports = crew.options().adapt(Options::new(vec![PortOptions::new(&socket)]));
            ports.timeout = Some(DEADLINE);
            change(&mut ports);
            let free = usize::from(ports.ports[0].queue_size) + usize::from(ports.spare_buffers);
            let mut ports = Ports::open(ports, &stop).unwrap();
            let outcome = crew.run(&mut ports, idle, &stop, work);
            ended.store(true, Ordering::Relaxed);
            let port = &mut ports[0];
            // The device may not have sent all yet.
            wait("all buffers to return", || {
                port.reclaim();
                (port.free_buffers() >= free).then_some(())
            });
            let (parent, workers) = (crew.parent().copied(), crew.workers().to_vec());
            let free = [port.free_buffers(), free];
            Ended { outcome, parent, workers, port: ports.counters()[0], free }
        });
        test(&mut rig);
        stop.store(true, Ordering::Relaxed);
        // The device stays for as long as the crew.
        crew.join().unwrap()
    })
}

pub fn device(socket: &Path) -> Echo {
    Echo::collecting(socket, Mode::Server, QUEUE_PAIRS)
}
