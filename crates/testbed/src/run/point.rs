//! One run: the network, the switches, the traffic, and the record of it.

use super::apps::{DPDK_MEGABYTES, Programs, Traffic};
use super::far::Far;
use super::loss::Totals;
use super::network::{Host, Network, Part, is_joinable, kind};
use super::plan::{Plan, Turn};
use super::processors::{Need, RunProcessors};
use super::record::{RunRecord, SwitchUse};
use super::search;
use super::store::Store;
use super::trial::Bench;
use crate::latency::{self, Latency};
use crate::scenario::{Containers, Location, OfferedRate, Point, Scenario};
use lab::cpu;
use lab::dpdk::Pages;
use lab::dpdk::app::App;
use lab::process::Interrupt;
use lab::switch::{Running, Setup, SwitchKind};
use lab::{Error, Result, lxc};
use loadgen::app::Rate;
use loadgen::endpoint::Technique;
use std::time::SystemTime;

/// Greatest number of processes of the load on DPDK that have huge pages.
const PROCESSES: u64 = 2;

/// The rig, which all runs share.
pub struct Rig<'r> {
    scenario: &'r Scenario,
    plan: &'r Plan,
    processors: Vec<usize>,
    programs: Programs,
    pages: Pages,
    interrupt: &'r Interrupt,
    role: HostRole,
}

/// The part that this machine has in the runs.
pub enum HostRole {
    /// It has all hosts.
    Only,
    /// It has the first of two hosts; the other is reached by this.
    First(Box<Far>),
    /// It has the second of two hosts.
    Second,
}

impl<'r> Rig<'r> {
    /// Prepares the runs of a plan.
    pub fn new(scenario: &'r Scenario, plan: &'r Plan, role: HostRole, interrupt: &'r Interrupt) -> Result<Rig<'r>> {
        if scenario.containers == Containers::Lxc {
            lxc::available().map_err(Error::other("looking for LXC"))?;
        }
        let own = std::env::current_exe().map_err(Error::io("looking for this program"))?;
        let dpdk = plan.turns().iter().any(|turn| turn.point.technique == Technique::VirtioUserDpdk);
        // Two at once, if there are two hosts.
        let switches = 2 * plan.contestants().map(|one| one.switch.megabytes()).max().unwrap_or(0);
        let pages = Pages::for_dpdk(switches + if dpdk { PROCESSES * DPDK_MEGABYTES } else { 0 });
        let build = || App::build(&own.with_file_name("dpdk-app")).map_err(Error::other("building the load on DPDK"));
        let app = if dpdk { Some((build()?, pages)) } else { None };
        let programs = Programs { own, dpdk: app, containers: scenario.containers };
        let processors = match (&role, &scenario.other_machine) {
            (HostRole::Second, Some(other)) => other.processors.clone().unwrap_or_else(cpu::available),
            _ => scenario.processors.clone(),
        };
        Ok(Rig { scenario, plan, processors, programs, pages, interrupt, role })
    }

    /// Makes a run. A run that fails is a record with the reason; only an interrupt is an error.
    pub fn run(&mut self, turn: &Turn, store: &Store) -> Result<RunRecord> {
        self.interrupt.check()?;
        let Turn { point, round, .. } = turn;
        let contestant = self.plan.contestant(&point.switch);
        let processors = self.processors(point);
        let mut record = RunRecord {
            point: point.clone(),
            round: *round,
            started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            distance: [self.distance()?; 2],
            placement: processors.placement,
            rate: None,
            reports: Vec::new(),
            cpu: Vec::new(),
            switch: SwitchUse {
                version: contestant.version.clone(),
                learns: contestant.switch.learns(),
                commands: Vec::new(),
                cycles: None,
            },
            search: None,
            error: None,
        };
        match self.measure(turn, &processors, store, &mut record) {
            Err(error) if error.is_interrupt() => return Err(error),
            Err(error) => record.error = Some(error.to_string()),
            Ok(()) => {}
        }
        record.distance[1] = self.distance()?;
        Ok(record)
    }

    /// Returns the processors of a point.
    pub fn processors(&self, point: &Point) -> RunProcessors {
        let (ends, remote) = (2 * usize::from(point.pairs), point.location == Location::Remote);
        let apart = self.part(point) != Part::Whole;
        let need = Need {
            switches: if remote && !apart { 2 } else { 1 },
            polling: self.plan.contestant(&point.switch).switch.processors(),
            ends: if apart { ends / 2 } else { ends },
            joinable: is_joinable(point.technique) && !apart,
        };
        RunProcessors::of(need, &self.processors)
    }

    /// Returns the part of a point's network that is on this machine.
    fn part(&self, point: &Point) -> Part<'r> {
        let remote = point.location == Location::Remote;
        match (&self.scenario.other_machine, &self.role) {
            (Some(other), HostRole::First(_)) if remote => Part::Host { number: 0, card: &other.cards[0] },
            (Some(other), HostRole::Second) if remote => Part::Host { number: 1, card: &other.cards[1] },
            _ => Part::Whole,
        }
    }

    /// Returns the distance of the first two processors.
    fn distance(&self) -> Result<Latency> {
        let second = self.processors.get(1).unwrap_or(&self.processors[0]);
        latency::between(self.processors[0], *second).map_err(Error::other("measuring the distance of processors"))
    }

    fn measure(
        &mut self,
        turn: &Turn,
        processors: &RunProcessors,
        store: &Store,
        record: &mut RunRecord,
    ) -> Result<()> {
        let Turn { point, timing, .. } = turn;
        let rate = match point.rate {
            OfferedRate::Max | OfferedRate::Search => Rate::Max,
            OfferedRate::PerSecond(rate) => Rate::PerSecond(rate),
            OfferedRate::OfNdr(percent) => Rate::PerSecond(share_of_ndr(point, percent, store)?),
        };
        if let Rate::PerSecond(rate) = rate {
            record.rate = Some(rate);
        }
        self.with_bench(point, processors, |bench| {
            record.switch.commands = bench.commands();
            if point.rate == OfferedRate::Search {
                record.search = Some(search::search(bench, point, *timing)?);
                return Ok(());
            }
            let found = bench.run(point, Traffic { rate, packets: None, timing: *timing })?;
            if Totals::of(&found.reports).received == 0 {
                return Err(Error::malformed("the run", "no packet came through"));
            }
            record.reports = found.reports;
            record.cpu = found.cpu;
            record.switch.cycles = found.cycles;
            Ok(())
        })
    }

    /// Starts the switches and the network of a point, and lets `measure` use them.
    pub fn with_bench<T>(
        &mut self,
        point: &Point,
        processors: &RunProcessors,
        measure: impl FnOnce(&mut Bench<'_>) -> Result<T>,
    ) -> Result<T> {
        let directory = tempfile::tempdir().map_err(Error::io("making a temporary directory"))?;
        let switch = &self.plan.contestant(&point.switch).switch;
        let no_port = || Error::malformed("the switch", "it has no such ports");
        let kind = kind(point.technique, switch.ports()).ok_or_else(no_port)?;
        let part = self.part(point);
        let network = Network::make(point, kind, processors, part, directory.path())?;
        let mut switches = self.start(switch.as_ref(), processors, &network)?;
        network.settle()?;
        let far = match &mut self.role {
            HostRole::First(far) if part != Part::Whole => Some(far.open(point)?),
            _ => None,
        };
        measure(&mut Bench {
            switches: &mut switches,
            network: &network,
            placement: processors.placement,
            programs: &self.programs,
            far,
            interrupt: self.interrupt,
        })
    }

    /// Starts a switch on each host.
    fn start(
        &self,
        switch: &dyn SwitchKind,
        processors: &RunProcessors,
        network: &Network,
    ) -> Result<Vec<Box<dyn Running>>> {
        let one = |(host, polling): (&Host, &Vec<usize>)| {
            switch.start(&Setup {
                directory: &host.directory,
                host: host.number,
                ports: &host.ports,
                namespace: &host.namespace,
                processors: polling,
                others: processors.others(),
                pages: self.pages,
                interrupt: self.interrupt,
            })
        };
        network.hosts.iter().zip(&processors.switches).map(one).collect()
    }
}

/// Returns this share of the median rate without loss that the switch reached in the same case.
fn share_of_ndr(point: &Point, percent: u8, store: &Store) -> Result<f64> {
    let searched = Point { rate: OfferedRate::Search, ..point.clone() };
    let runs = store.runs().iter().filter(|run| run.point == searched);
    let mut found: Vec<f64> = runs.filter_map(|run| Some(run.search.as_ref()?.ndr[0])).collect();
    found.sort_by(f64::total_cmp);
    match found.get(found.len() / 2) {
        Some(&ndr) if ndr > 0.0 => Ok(ndr * f64::from(percent) / 100.0),
        Some(_) => Err(Error::malformed("the rate without loss", "the search found that every rate loses packets")),
        None => Err(Error::malformed("the rate without loss", "its search has failed; run the scenario again")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use serde_json::json;

    #[test]
    fn a_share_is_of_the_rate_that_the_same_search_found() {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::detect(directory.path());
        let mut store = Store::open(directory.path(), "", &machine).unwrap();
        let record = |switch: &str, round: u32, ndr: f64| -> RunRecord {
            let near = json!({"nanoseconds": 40.0, "distance": "near"});
            let record = json!({
                "point": {
                    "dimension": "latency", "location": "local", "pairs": 1, "switch": switch, "technique": "virtio-user",
                    "size": "64", "rate": "search", "burst": 1, "arrivals": "constant", "touch": "full",
                },
                "round": round, "started": "", "distance": [near, near], "placement": "joined", "reports": [], "cpu": [],
                "switch": {"version": "", "learns": true, "commands": []},
                "search": {"ndr": [ndr, 2.0 * ndr], "pdr": [ndr, 2.0 * ndr], "trials": []},
            });
            serde_json::from_value(record).unwrap()
        };
        for (round, ndr) in [(0, 1e6), (1, 3e6), (2, 2e6)] {
            store.add(record("one", round, ndr)).unwrap();
        }
        store.add(record("lossy", 0, 0.0)).unwrap();
        let share = |switch: &str, percent| {
            let point = Point { rate: OfferedRate::OfNdr(percent), ..record(switch, 0, 1.0).point };
            share_of_ndr(&point, percent, &store).map_err(|error| error.to_string())
        };
        assert_eq!((share("one", 50), share("one", 10)), (Ok(1e6), Ok(2e5)));
        assert!(share("lossy", 50).unwrap_err().contains("every rate loses"));
        assert!(share("another", 50).unwrap_err().contains("its search has failed"));
    }
}
