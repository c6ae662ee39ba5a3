//! A single measurement: a switch and a load, from start to end.

use super::millrace;
use super::options::{Compare, LoadKind};
use super::results::{Counted, Run};
use super::scenario::{Contestant, Scenario};
use crate::latency::{self, Latency};
use crate::load::{RUNNING, Report};
use crate::programs::ovs::Ovs;
use crate::programs::testpmd::{Lcores, Testpmd};
use crate::programs::{Idle, Interrupt, Interrupted, Millrace, MillraceError, Pages, Program, ProgramError, Ring};
use engine::stats::Snapshot;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Margin by which the switch is observed inside the load's own measurement, at either end: an observation takes time, too.
const MARGIN: Duration = Duration::from_millis(100);

/// Time that a load may take beyond its configured duration.
const LIMIT: Duration = Duration::from_secs(30);

/// Error of a measurement.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum MeasureError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Millrace(#[from] MillraceError),
    #[error("a temporary directory can't be made: {0}")]
    Directory(std::io::Error),
    #[error("the load's report can't be read: {0}")]
    Report(#[from] serde_json::Error),
    #[error("no frame came through")]
    Nothing,
    #[error(transparent)]
    Pin(#[from] crate::cpu::PinError),
}

impl From<Interrupted> for MeasureError {
    fn from(interrupted: Interrupted) -> Self {
        ProgramError::from(interrupted).into()
    }
}

impl MeasureError {
    /// Reports whether a signal caused it.
    pub fn is_interrupt(&self) -> bool {
        matches!(
            self,
            MeasureError::Program(ProgramError::Interrupted(_))
                | MeasureError::Millrace(MillraceError::Program(ProgramError::Interrupted(_)))
        )
    }
}

/// State shared by all measurements.
pub struct Bench<'a> {
    /// The options.
    pub compare: &'a Compare,
    /// The Millrace program, if it takes part.
    pub millrace: PathBuf,
    /// Kind of pages of DPDK's memory.
    pub pages: Pages,
    /// Flag that ends a measurement.
    pub interrupt: &'a Interrupt,
}

/// The switch under test.
enum Switch {
    Millrace(Box<Millrace>),
    Testpmd(Testpmd),
    Ovs(Box<Ovs>),
}

/// Observation of a switch at one moment.
struct Moment {
    at: Instant,
    switch_cpu: Duration,
    snapshot: Option<Snapshot>,
    /// Cycles per frame counted by a peer since the last observation.
    cycles: Option<f64>,
}

/// Results of the load.
struct Found {
    mpps: f64,
    load_cpu_share: f64,
    report: Option<Report>,
    moments: [Moment; 2],
}

impl Bench<'_> {
    /// Measures once. Measures the processors' distance first, while they are free.
    pub fn measure(&self, contestant: Contestant, scenario: Scenario, round: u32) -> Result<Run, MeasureError> {
        let latency = self.latency()?;
        let directory = tempfile::Builder::new().prefix("testbed-").tempdir().map_err(MeasureError::Directory)?;
        let sockets = ["a.sock", "b.sock"].map(|name| directory.path().join(name));
        let start = |wire| self.switch(contestant, (directory.path(), &sockets), wire);
        let (mut switch, found);
        match self.compare.load {
            LoadKind::Testbed => {
                switch = start(None)?;
                found = self.own_load(&mut switch, self.program("load", &sockets, scenario)?)?;
            }
            LoadKind::Testpmd => {
                switch = start(None)?;
                found = self.testpmd_load(&mut switch, &sockets, scenario)?;
            }
            LoadKind::Wire => {
                // The NIC must exist before its driver.
                let wire = self.program("wire", &sockets, scenario)?;
                switch = start(Some(scenario.ring))?;
                found = self.own_load(&mut switch, wire)?;
            }
        }
        if found.mpps <= 0.0 {
            return Err(MeasureError::Nothing);
        }
        let [before, after] = &found.moments;
        let counted = before.snapshot.as_ref().zip(after.snapshot.as_ref());
        let counted = counted.map(|(before, after)| Counted::between(before, after));
        Ok(Run {
            contestant,
            round,
            latency,
            mpps: found.mpps,
            switch_cpu_share: share(before, after, after.switch_cpu.saturating_sub(before.switch_cpu)),
            load_cpu_share: found.load_cpu_share,
            cycles_per_packet: counted.as_ref().map(|counted| counted.cycles_per_packet).or(after.cycles),
            counted,
            dpdk: switch.dpdk(),
            load: found.report,
        })
    }

    /// Measures the latency between the two processors.
    pub fn latency(&self) -> Result<Latency, MeasureError> {
        Ok(latency::between(self.compare.switch_cpu, self.compare.load_cpu)?)
    }

    fn switch(
        &self,
        contestant: Contestant,
        (directory, sockets): (&Path, &[PathBuf; 2]),
        wire: Option<Ring>,
    ) -> Result<Switch, MeasureError> {
        let cpu = self.compare.switch_cpu;
        let lcores = Lcores { forwarding: cpu, console: self.compare.load_cpu };
        Ok(match contestant {
            Contestant::Millrace(forward) => Switch::Millrace(Box::new(millrace::start(
                &self.millrace,
                (directory, sockets),
                (forward, wire),
                (cpu, Idle::Poll),
                self.interrupt,
            )?)),
            Contestant::Testpmd => Switch::Testpmd(Testpmd::switch(sockets, wire, lcores, self.pages, self.interrupt)?),
            Contestant::Ovs => Switch::Ovs(Box::new(Ovs::start(directory, sockets, wire, lcores, self.interrupt)?)),
        })
    }

    /// Starts this program again, with `subcommand`.
    fn program(&self, subcommand: &str, sockets: &[PathBuf; 2], scenario: Scenario) -> Result<Program, MeasureError> {
        let program = std::env::current_exe().map_err(MeasureError::Directory)?;
        let mut command = Command::new(program);
        command.args([subcommand, "--json"]).args(sockets);
        command.args(["--cpu", &self.compare.load_cpu.to_string(), "--size", &scenario.size.to_string()]);
        command.args(["--touch", &scenario.touch.to_string(), "--seconds", &self.compare.seconds().to_string()]);
        command.args(["--warmup", &self.compare.warmup().to_string()]);
        if scenario.ring == Ring::Packed {
            command.arg("--packed");
        }
        Ok(Program::start(format!("the {subcommand}"), command, self.interrupt)?)
    }

    fn own_load(&self, switch: &mut Switch, mut load: Program) -> Result<Found, MeasureError> {
        switch.wait_up(|| load.check("the switch's ports"))?;
        let running = |load: &Program| load.errors().iter().any(|line| line == RUNNING).then_some(());
        load.wait_for("its first frames", LIMIT, running)?;
        let (seconds, warmup) = self.durations();
        self.interrupt.sleep(warmup + MARGIN)?;
        let before = switch.look()?;
        self.interrupt.sleep(seconds.saturating_sub(2 * MARGIN).max(MARGIN))?;
        // On a busy machine the load may have ended by now: only its report counts.
        let after = switch.look()?;
        let report: Report = serde_json::from_str(&load.finish(seconds + LIMIT)?)?;
        // Use its own time: a switch may take long to accept it.
        Ok(Found {
            mpps: report.mpps,
            load_cpu_share: report.cpu_share,
            report: Some(report),
            moments: [before, after],
        })
    }

    fn testpmd_load(
        &self,
        switch: &mut Switch,
        sockets: &[PathBuf; 2],
        scenario: Scenario,
    ) -> Result<Found, MeasureError> {
        let cpu = self.compare.load_cpu;
        let lcores = Lcores { forwarding: cpu, console: cpu };
        let traffic = (scenario.ring, scenario.size);
        let mut load = Testpmd::load(sockets, traffic, lcores, self.pages, self.interrupt)?;
        switch.wait_up(|| load.program().check("the switch's ports"))?;
        let (seconds, warmup) = self.durations();
        self.interrupt.sleep(warmup)?;
        let (before, began) = (load.received()?, Instant::now());
        let (first, cpu_before) = (switch.look()?, load.program().cpu_time()?);
        self.interrupt.sleep(seconds)?;
        let (last, cpu_after) = (switch.look()?, load.program().cpu_time()?);
        let (after, ended) = (load.received()?, Instant::now());
        let mpps = (after - before) as f64 / (ended - began).as_secs_f64() / 1e6;
        let load_cpu_share = share(&first, &last, cpu_after.saturating_sub(cpu_before));
        Ok(Found { mpps, load_cpu_share, report: None, moments: [first, last] })
    }

    fn durations(&self) -> (Duration, Duration) {
        (Duration::from_secs_f64(self.compare.seconds()), Duration::from_secs_f64(self.compare.warmup()))
    }
}

/// Returns the share of one processor used between two moments.
fn share(before: &Moment, after: &Moment, used: Duration) -> f64 {
    used.as_secs_f64() / (after.at - before.at).as_secs_f64()
}

impl Switch {
    /// Peers do not report when their ports are up; loads wait for a first frame.
    fn wait_up(&mut self, load: impl FnMut() -> Result<(), ProgramError>) -> Result<(), MillraceError> {
        match self {
            Switch::Millrace(millrace) => millrace.wait_up(load),
            Switch::Testpmd(_) | Switch::Ovs(_) => Ok(()),
        }
    }

    fn look(&mut self) -> Result<Moment, MeasureError> {
        let (snapshot, cycles, program) = match self {
            Switch::Millrace(millrace) => (Some(millrace.snapshot()?), None, millrace.program()),
            Switch::Testpmd(testpmd) => (None, testpmd.take_cycles()?, testpmd.program()),
            Switch::Ovs(ovs) => (None, ovs.take_cycles()?, ovs.program()),
        };
        program.check("the end of the measurement")?;
        Ok(Moment { at: Instant::now(), switch_cpu: program.cpu_time()?, snapshot, cycles })
    }

    fn dpdk(&self) -> Option<String> {
        match self {
            Switch::Millrace(_) => None,
            Switch::Testpmd(testpmd) => testpmd.version(),
            Switch::Ovs(ovs) => ovs.version(),
        }
    }
}
