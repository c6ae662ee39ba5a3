//! One trial: applications around a switch that runs, from their start to their reports.

use super::apps::{Apps, Programs, Traffic};
use super::far::Bench as FarBench;
use super::network::Network;
use super::record::{AppPlacement, CpuUse};
use super::used::{Used, add};
use crate::scenario::Point;
use lab::process::Interrupt;
use lab::switch::Running;
use lab::{Error, Result};
use loadgen::app::AppReport;
use std::time::{Duration, Instant};

/// Time limit for a switch's ports to be up, once the applications are there.
const LIMIT: Duration = Duration::from_secs(60);
/// How often a switch is asked.
const LOOK: Duration = Duration::from_millis(20);

/// A switch on each host, with the network around them.
pub struct Bench<'b> {
    /// The switches.
    pub switches: &'b mut [Box<dyn Running>],
    /// The network.
    pub network: &'b Network,
    /// How the applications are placed.
    pub placement: AppPlacement,
    /// Programs of the applications.
    pub programs: &'b Programs,
    /// The bench of the other machine, if it has the second host.
    pub far: Option<FarBench<'b>>,
    /// Flag that ends the measurement.
    pub interrupt: &'b Interrupt,
}

/// Results of a trial.
pub struct Found {
    /// The applications' reports.
    pub reports: Vec<AppReport>,
    /// Processor time of everything that took part.
    pub cpu: Vec<CpuUse>,
    /// Cycles per frame that the first switch counted.
    pub cycles: Option<f64>,
}

impl Bench<'_> {
    /// Sends traffic once.
    pub fn run(&mut self, point: &Point, traffic: Traffic) -> Result<Found> {
        // The other machine has the receivers, which come first.
        self.far.as_mut().map_or(Ok(()), |far| far.start(traffic))?;
        let mut apps = self.start(point, traffic)?;
        apps.go()?;
        apps.wait_measuring(traffic.timing.warm_up)?;
        let before = self.used(&apps);
        self.far.as_mut().map_or(Ok(()), FarBench::begin)?;
        self.switches[0].take_cycles()?;
        apps.wait_measured(traffic.timing.seconds)?;
        let cycles = self.switches[0].take_cycles()?;
        let mut cpu = self.used(&apps).since(&before);
        self.far.as_mut().map_or(Ok(Vec::new()), FarBench::end)?.into_iter().for_each(|share| add(&mut cpu, share));
        let mut reports = apps.finish()?;
        reports.extend(self.far.as_mut().map_or(Ok(Vec::new()), FarBench::finish)?);
        self.check()?;
        Ok(Found { reports, cpu, cycles })
    }

    /// Starts the applications, and waits until the switches' ports are up.
    pub fn start(&mut self, point: &Point, traffic: Traffic) -> Result<Apps> {
        let mut apps = Apps::start(point, traffic, self.network, self.placement, self.programs, self.interrupt)?;
        self.wait_up(&mut apps)?;
        Ok(apps)
    }

    /// Checks that all switches run.
    pub fn check(&mut self) -> Result<()> {
        self.switches.iter_mut().try_for_each(|switch| switch.check())
    }

    /// Returns the command lines that started the first switch.
    pub fn commands(&self) -> Vec<String> {
        self.switches[0].commands()
    }

    fn wait_up(&mut self, apps: &mut Apps) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        for switch in &mut *self.switches {
            while !switch.is_up()? {
                apps.check()?;
                switch.check()?;
                self.interrupt.sleep(LOOK)?;
                if Instant::now() > deadline {
                    return Err(Error::malformed("the switch", "its ports are not up within a minute of its guests"));
                }
            }
        }
        Ok(())
    }

    /// Reads the processor times of everything that takes part on this machine.
    pub fn used(&self, apps: &Apps) -> Used {
        let switches = self.switches.iter().flat_map(|switch| switch.processes()).map(|pid| ("switch".to_owned(), pid));
        let apps = apps.processes().map(|(name, pid)| (name.to_owned(), pid));
        Used::now(switches.chain(apps))
    }
}
