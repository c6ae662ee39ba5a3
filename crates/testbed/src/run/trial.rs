//! One trial: applications around a switch that runs, from their start to their reports.

use super::apps::{Apps, Programs, Traffic};
use super::network::Network;
use super::place::Place;
use super::record::CpuUse;
use super::used::Used;
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
    /// Processors.
    pub place: &'b Place,
    /// Programs of the applications.
    pub programs: &'b Programs,
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
        let mut apps = Apps::start(point, traffic, self.network, self.place, self.programs, self.interrupt)?;
        self.wait_up(&mut apps)?;
        apps.go()?;
        apps.wait_measuring(traffic.timing.warm_up)?;
        let before = self.used(&apps);
        self.switches[0].take_cycles()?;
        apps.wait_measured(traffic.timing.seconds)?;
        let cycles = self.switches[0].take_cycles()?;
        let cpu = self.used(&apps).since(&before);
        let reports = apps.finish()?;
        self.switches.iter_mut().try_for_each(|switch| switch.check())?;
        Ok(Found { reports, cpu, cycles })
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

    fn used(&self, apps: &Apps) -> Used {
        let switches = self.switches.iter().flat_map(|switch| switch.processes()).map(|pid| ("switch".to_owned(), pid));
        let apps = apps.processes().map(|(name, pid)| (name.to_owned(), pid));
        Used::now(switches.chain(apps))
    }
}
