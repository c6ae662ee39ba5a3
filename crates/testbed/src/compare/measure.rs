//! A single measurement: a switch and a load, from start to end.

use super::choices::LoadKind;
use super::millrace;
use super::options::Compare;
use super::results::{Counted, Run};
use super::scenario::{Contestant, Scenario};
use crate::latency::{self, Latency};
use crate::millrace::{Idle, MillraceError};
use crate::nic::Nic;
use crate::peers::{TestpmdSetup, ovs_switch, switch_ports, testpmd_load, testpmd_switch};
use crate::ring_format::RingFormat;
use engine::stats::Snapshot;
use lab::dpdk::{Lcores, Pages, Testpmd};
use lab::millrace::Millrace;
use lab::ovs::Ovs;
use lab::process::{Daemon, Interrupt, Launch};
use loadgen::load::{RUNNING, Report};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Margin by which the switch is observed inside the load's own measurement, at either end: an observation takes time, too.
const MARGIN: Duration = Duration::from_millis(100);

/// Time that a load may take beyond its configured duration.
const LIMIT: Duration = Duration::from_secs(120);

/// Error of a measurement.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum MeasureError {
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error(transparent)]
    Millrace(#[from] MillraceError),
    #[error("a temporary directory can't be made: {0}")]
    Directory(std::io::Error),
    #[error("the load's report can't be read: {0}")]
    Report(#[from] serde_json::Error),
    #[error("no frame came through")]
    Nothing,
    #[error(transparent)]
    Pin(#[from] loadgen::cpu::PinError),
}

impl MeasureError {
    /// Reports whether a signal caused it.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, MeasureError::Lab(error) | MeasureError::Millrace(MillraceError::Lab(error)) if error.is_interrupt())
    }
}

/// State shared by all measurements.
pub struct Bench<'a> {
    /// The options.
    pub compare: &'a Compare,
    /// The Millrace program.
    pub millrace: PathBuf,
    /// The other build of it, if it takes part.
    pub against: Option<PathBuf>,
    /// Kind of pages of DPDK's memory.
    pub pages: Pages,
    /// Flag that ends a measurement.
    pub interrupt: &'a Interrupt,
}

/// The switch under test.
enum SwitchUnderTest {
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
        let ports = 2 * (usize::from(scenario.functions) - 1);
        let sockets: Vec<_> = (0..ports).map(|port| directory.path().join(format!("{port}.sock"))).collect();
        let start = |nic| self.switch(contestant, directory.path(), &sockets, scenario.size, nic);
        let (mut switch, found);
        match self.compare.load {
            LoadKind::Testbed => {
                switch = start(None)?;
                found = self.own_load(&mut switch, self.program("load", &sockets, scenario, contestant)?)?;
            }
            LoadKind::Testpmd => {
                switch = start(None)?;
                found = self.testpmd_load(&mut switch, &sockets, scenario)?;
            }
            LoadKind::Wire => {
                // The NIC must exist before its driver.
                let wire = self.program("wire", &sockets, scenario, contestant)?;
                switch = start(Some(Nic::Virtio(scenario.ring)))?;
                found = self.own_load(&mut switch, wire)?;
            }
            LoadKind::Null => {
                switch = start(Some(Nic::Null(scenario.size)))?;
                found = self.own_load(&mut switch, self.program("echo", &sockets[1..], scenario, contestant)?)?;
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
        directory: &Path,
        sockets: &[PathBuf],
        longest: u16,
        nic: Option<Nic>,
    ) -> Result<SwitchUnderTest, MeasureError> {
        let cpu = self.compare.switch_cpu;
        let lcores = Lcores { forwarding: cpu, others: Some(self.compare.load_cpu) };
        Ok(match contestant {
            Contestant::Millrace(forward) | Contestant::Against(forward) => {
                SwitchUnderTest::Millrace(Box::new(millrace::start(
                    self.against
                        .as_ref()
                        .filter(|_| contestant == Contestant::Against(forward))
                        .unwrap_or(&self.millrace),
                    directory,
                    sockets,
                    millrace::Setup { forward, longest, nic, tunnel: self.compare.vxlan, cpu, idle: Idle::Poll },
                    self.interrupt,
                )?))
            }
            Contestant::Testpmd => {
                SwitchUnderTest::Testpmd(testpmd_switch(switch_ports(sockets, nic), self.testpmd_setup(lcores))?)
            }
            Contestant::Ovs => {
                let ports = switch_ports(sockets, nic);
                SwitchUnderTest::Ovs(Box::new(ovs_switch(directory, ports, lcores, self.interrupt)?))
            }
        })
    }

    fn testpmd_setup(&self, lcores: Lcores) -> TestpmdSetup<'_> {
        TestpmdSetup { lcores, pages: self.pages, interrupt: self.interrupt }
    }

    /// Starts this program again, with `subcommand`.
    fn program(
        &self,
        subcommand: &str,
        sockets: &[PathBuf],
        scenario: Scenario,
        contestant: Contestant,
    ) -> Result<Daemon, MeasureError> {
        let program = std::env::current_exe().map_err(MeasureError::Directory)?;
        let mut command = Command::new(program);
        command.args([subcommand, "--json"]).args(sockets);
        command.args(["--cpu", &self.compare.load_cpu.to_string(), "--size", &scenario.size.to_string()]);
        command.args(["--touch", &scenario.touch.to_string(), "--seconds", &self.compare.seconds().to_string()]);
        command.args(["--warmup", &self.compare.warmup().to_string()]);
        if scenario.ring == RingFormat::Packed {
            command.arg("--packed");
        }
        if self.compare.vxlan {
            command.arg("--vxlan");
        }
        if self.compare.sink {
            command.arg("--sink");
        }
        if scenario.functions > 2 {
            command.arg("--chain");
        }
        if matches!(contestant, Contestant::Millrace(forward) | Contestant::Against(forward) if forward.exchanges()) {
            command.arg("--exchange");
        }
        Ok(Launch::measured(format!("the {subcommand}"), self.interrupt).spawn(command)?)
    }

    fn own_load(&self, switch: &mut SwitchUnderTest, mut load: Daemon) -> Result<Found, MeasureError> {
        // It begins by itself when frames pass. On a busy machine a short load may be over before this looks at the ports.
        load.wait_for_line("its first frames", LIMIT, |line| line == RUNNING)?;
        let (seconds, warmup) = self.durations();
        self.interrupt.sleep(warmup + MARGIN)?;
        let before = switch.look()?;
        self.interrupt.sleep(seconds.saturating_sub(2 * MARGIN).max(MARGIN))?;
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
        switch: &mut SwitchUnderTest,
        sockets: &[PathBuf],
        scenario: Scenario,
    ) -> Result<Found, MeasureError> {
        let cpu = self.compare.load_cpu;
        let setup = self.testpmd_setup(Lcores { forwarding: cpu, others: Some(cpu) });
        let mut load = testpmd_load(sockets, scenario.ring, scenario.size, setup)?;
        switch.wait_up(|| load.daemon().check("the switch's ports"))?;
        let (seconds, warmup) = self.durations();
        self.interrupt.sleep(warmup)?;
        let (before, began) = (load.received()?, Instant::now());
        let (first, cpu_before) = (switch.look()?, load.daemon().cpu_time()?);
        self.interrupt.sleep(seconds)?;
        let (last, cpu_after) = (switch.look()?, load.daemon().cpu_time()?);
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

impl SwitchUnderTest {
    /// Peers do not report when their ports are up; loads wait for a first frame.
    fn wait_up(&mut self, load: impl FnMut() -> lab::Result<()>) -> lab::Result<()> {
        match self {
            SwitchUnderTest::Millrace(millrace) => millrace.wait_all_up(load),
            SwitchUnderTest::Testpmd(_) | SwitchUnderTest::Ovs(_) => Ok(()),
        }
    }

    fn look(&mut self) -> Result<Moment, MeasureError> {
        let (snapshot, cycles, daemon) = match self {
            SwitchUnderTest::Millrace(millrace) => (Some(millrace.stats()?), None, &mut millrace.daemon),
            SwitchUnderTest::Testpmd(testpmd) => (None, testpmd.take_cycles()?, testpmd.daemon()),
            SwitchUnderTest::Ovs(ovs) => (None, ovs.take_cycles()?, ovs.daemon()),
        };
        daemon.check("the end of the measurement")?;
        Ok(Moment { at: Instant::now(), switch_cpu: daemon.cpu_time()?, snapshot, cycles })
    }

    fn dpdk(&self) -> Option<String> {
        match self {
            SwitchUnderTest::Millrace(_) => None,
            SwitchUnderTest::Testpmd(testpmd) => testpmd.version(),
            SwitchUnderTest::Ovs(ovs) => ovs.version(),
        }
    }
}
