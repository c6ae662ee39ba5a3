//! The demonstration: a switch and two sandboxed network functions that exchange traffic and check every payload.

mod function;
mod report;
mod sandbox;

pub use function::{FunctionOptions, run as run_function};

use crate::terminal::can_redraw;
use engine::Switch;
use engine::port::vhost_user;
use engine::spec::{Driver, Idle, PortSpec, Spec, WorkerSpec};
use engine::stats::Snapshot;
use function::{Role, Tally};
use loadgen::load;
use report::{Checked, Measured, Report};
use sandbox::{Function, Sandbox};
use std::io::Write;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Frame sizes to compare.
const SIZES: [usize; 3] = [64, 512, 1514];
/// Measurements per size and mode, alternating.
const ROUNDS: usize = 2;
/// Share of the time in which every payload is checked; the rest is for the comparison.
const CHECKED: f64 = 0.3;
/// Size of the frames whose payload is checked.
const CHECKED_SIZE: usize = 512;
/// Time for the queues to fill before measuring.
const WARM_UP: Duration = Duration::from_millis(150);

/// Time limit for connecting: an emulated machine takes seconds.
const CONNECT: Duration = Duration::from_secs(60);

/// Error of the demonstration.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The switch could not start.
    #[error(transparent)]
    Switch(#[from] engine::Error),
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    System {
        /// The attempted action.
        action: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// A network function ended early.
    #[error("the network function \"{name}\" failed: {problem}")]
    Function {
        /// Its name.
        name: &'static str,
        /// Its error output.
        problem: String,
    },
    /// Frames came back changed, twice, or not at all.
    #[error("{0} payloads were wrong or lost; the switch must not do that: please report it")]
    Payload(u64),
}

/// Runs the demonstration for about `seconds` and prints the result as text or JSON.
pub fn run(seconds: f64, json: bool) -> Result<(), DemoError> {
    let sandbox = Sandbox::detect();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut report = Report::new(sandbox.describe(), cpus);
    // If the reader has gone, the checks continue, and count.
    let print = |text: &str| _ = writeln!(std::io::stdout(), "{text}");
    let say = |text: &str| {
        if !json {
            print(text);
        }
    };
    say(&report.introduction());
    let slice = seconds * (1.0 - CHECKED) / (SIZES.len() * 2 * ROUNDS) as f64;
    let rig = Rig { sandbox: &sandbox, cpus };
    for size in SIZES {
        for round in 0..ROUNDS {
            progress(json, size, round);
            for staged in [true, false] {
                report.add(size, staged, rig.compare(size, staged, slice)?);
            }
        }
    }
    progress_done(json);
    say(&report.table());
    say(&report.functions());
    let checked = Duration::from_secs_f64(seconds * CHECKED);
    report.checked = Some(rig.check(CHECKED_SIZE, checked, |from, to| say(&report::rates(from, to)))?);
    print(&if json { report.json() } else { report.outcome() });
    match report.wrong() {
        0 => Ok(()),
        wrong => Err(DemoError::Payload(wrong)),
    }
}

fn progress(json: bool, size: usize, round: usize) {
    if !json && can_redraw(&std::io::stderr()) {
        let _ = write!(std::io::stderr(), "\rcomparing at {size} bytes, round {} of {ROUNDS} ...  ", round + 1);
    }
}

fn progress_done(json: bool) {
    if !json && can_redraw(&std::io::stderr()) {
        let _ = write!(std::io::stderr(), "\r{:50}\r", "");
    }
}

/// Environment of every measurement.
struct Rig<'s> {
    sandbox: &'s Sandbox,
    cpus: usize,
}

impl Rig<'_> {
    /// Measures the switch under a load that is faster than it, for `seconds`.
    fn compare(&self, size: usize, staged: bool, seconds: f64) -> Result<Measured, DemoError> {
        let system = |action| move |source| DemoError::System { action, source };
        let directory = tempfile::tempdir().map_err(system("make a temporary directory"))?;
        let sockets = ["a.sock", "b.sock"].map(|name| directory.path().join(name));
        let switch = Switch::start(self.spec(&sockets, staged))?;
        let cpu = (self.cpus > 1).then_some(1);
        let options = FunctionOptions { role: Role::Load, socket: sockets.to_vec(), size, cpu, seconds };
        let mut load = Function::start(self.sandbox, &options).map_err(system("start a load"))?;
        let before = switch.snapshot();
        let done: load::Report = load.result().map_err(|problem| DemoError::Function { name: "load", problem })?;
        Ok(Measured::under(&done, &before, &switch.snapshot()))
    }

    /// Starts a switch and two network functions that check every byte, and runs them for `time` with frames of `size` bytes.
    /// Passes the counters to `watch` every second.
    fn check(
        &self,
        size: usize,
        time: Duration,
        mut watch: impl FnMut(&Snapshot, &Snapshot),
    ) -> Result<Checked, DemoError> {
        let system = |action| move |source| DemoError::System { action, source };
        let directory = tempfile::tempdir().map_err(system("make a temporary directory"))?;
        let sockets = ["a.sock", "b.sock"].map(|name| directory.path().join(name));
        let switch = Switch::start(self.spec(&sockets, false))?;
        let mut functions = Vec::new();
        // Both run on the CPUs left by the switch: with two processors, on the same one.
        for (role, socket) in [Role::Echo, Role::Source].into_iter().zip(&sockets) {
            let cpu = (self.cpus > 1).then(|| if self.cpus > 2 { 1 + role as usize } else { 1 });
            let options = FunctionOptions { role, socket: vec![socket.clone()], size, cpu, seconds: 0.0 };
            functions.push(Function::start(self.sandbox, &options).map_err(system("start a network function"))?);
        }
        let [mut echo, mut source] =
            <[Function; 2]>::try_from(functions).unwrap_or_else(|_| unreachable!("there are two"));
        let failed = |name| move |problem| DemoError::Function { name, problem };
        echo.wait_ready().map_err(failed("echo"))?;
        source.wait_ready().map_err(failed("source"))?;
        // Frames sent before the receiver's queue runs would be dropped.
        let connecting = Instant::now();
        while !switch.snapshot().ports.iter().all(|port| port.up) {
            if connecting.elapsed() > CONNECT {
                return Err(DemoError::Function { name: "source", problem: "its queues do not run".to_owned() });
            }
            sleep(Duration::from_millis(1));
        }
        echo.go().and_then(|()| source.go()).map_err(system("tell a network function to begin"))?;
        sleep(WARM_UP);
        let (began, mut last) = (Instant::now(), switch.snapshot());
        while let Some(left) = time.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            sleep(left.min(Duration::from_secs(1)));
            let now = switch.snapshot();
            watch(&last, &now);
            last = now;
        }
        let tally: Tally = source.finish().map_err(failed("source"))?;
        drop(echo);
        Ok(Checked::from(tally))
    }

    fn spec(&self, sockets: &[impl AsRef<Path>; 2], staged: bool) -> Spec {
        let port = |name: &str, socket: &Path| {
            let driver = Driver::VhostUser(vhost_user::Settings::at(socket));
            PortSpec { staged, ..PortSpec::new(name, driver) }
        };
        let idle = if self.cpus > 1 { Idle::Poll } else { Idle::Backoff };
        Spec {
            ports: vec![port("a", sockets[0].as_ref()), port("b", sockets[1].as_ref())],
            patches: vec![["a".into(), "b".into()]],
            workers: vec![WorkerSpec { cpu: Some(0), idle, ..WorkerSpec::default() }],
            ..Spec::default()
        }
    }
}
