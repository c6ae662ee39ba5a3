//! A node: Millrace with the given ports and one worker.

use super::scheduling::Scheduling;
use super::{Rig, RigError};
use crate::millrace;
use crate::surroundings::Surroundings;
use engine::stats::Snapshot;
use lab::millrace::config::{
    Acceleration, Configuration, Field, RawAggregation, RawFile, RawNextHop, RawPort, VhostUser, VirtioUser,
    aggregation, file, flow, next_hop, pass_through, patch, port, socket,
};
use lab::millrace::{Files, Millrace};
use lab::netns::Namespace;
use loadgen::traffic::CHAIN;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Returns a guest's port with the socket `NAME.sock` among the rig's files.
pub fn guest(name: &str, rig: &Rig) -> RawPort {
    port(name, VhostUser { socket: socket(&rig.file(&format!("{name}.sock"))), ..VhostUser::default() })
}

/// Sets whether a port faces the network: packets are joined before they leave here, and split when they arrive.
pub fn aggregating(port: RawPort, aggregating: bool) -> RawPort {
    RawPort { aggregate: aggregating.into(), ..port }
}

/// Returns a port to a backend at this socket, with rings of this size.
pub fn driver(name: &str, path: &Path, size: u16) -> RawPort {
    let queue_size = i64::from(size).into();
    port(name, VirtioUser { socket: socket(path), queue_size, ..VirtioUser::default() })
}

/// Identity of a node or network function, and the next hop of its packets of [`CHAIN`]. Both are numbers, from which addresses
/// are made.
#[derive(Clone, Copy, Debug)]
pub struct NodeNumbers {
    /// Its own number.
    pub own: u8,
    /// The next hop's.
    pub next: u8,
}

impl NodeNumbers {
    /// Returns the section `[aggregation]`.
    pub fn section(self) -> RawAggregation {
        self.behind(None)
    }

    /// Returns the section with the next hop behind `port`, if given.
    pub fn behind(self, port: Option<&str>) -> RawAggregation {
        let [own, next] =
            [self.own, self.next].map(|number| (format!("02:00:00:00:01:{number:02x}"), format!("192.0.2.{number}")));
        let hop = RawNextHop { port: port.map_or_else(Field::default, Field::from), ..next_hop(7, &next.0, &next.1) };
        RawAggregation {
            next_hops: vec![hop.into()],
            flows: vec![flow(CHAIN.into(), 7).into()],
            ..aggregation(&own.0, &own.1)
        }
    }

    /// Loads the rules, by writing them to a file.
    pub fn load(self, file: &Path) -> Result<paflow::AggregationRules, RigError> {
        let failed = |source| RigError::System { action: "the rules can't be written", source };
        std::fs::write(file, self.section().text()).map_err(failed)?;
        let spec = settings::aggregation::load(file, &[])?.spec();
        Ok(paflow::AggregationRules::new(&spec, std::iter::empty()))
    }
}

/// Configuration of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Name of the node and its files.
    pub name: &'static str,
    /// Its ports.
    pub ports: Vec<RawPort>,
    /// Patched pairs of ports, by name.
    pub patches: Vec<[&'static str; 2]>,
    /// Pairs of ports, by name, of which the first is mapped to the second, as one wire.
    pub mappings: Vec<[&'static str; 2]>,
    /// Placement of its worker.
    pub scheduling: Scheduling,
    /// Rules for joining and splitting, at ports that aggregate.
    pub rules: Option<NodeNumbers>,
}

impl NodeConfig {
    /// Returns the configuration file, without `[control]`.
    pub fn file(&self) -> RawFile {
        let patches: Vec<_> = self.patches.iter().map(|[a, b]| patch(a, b)).collect();
        let mappings: Vec<_> = self.mappings.iter().map(|[from, to]| pass_through(from, to)).collect();
        let mut worker = self.scheduling.idle.worker(self.scheduling.cpu);
        if self.scheduling.priority.is_some() {
            // Programs of lower priority wait for it to sleep.
            worker.patience = "0s".into();
        }
        let rules = self.rules.map(NodeNumbers::section);
        file((self.ports.clone(), patches, mappings, worker, rules, Acceleration::Off))
    }

    /// Replaces the port of the same name by `port`.
    pub fn replace(&mut self, port: RawPort) {
        let name = |port: &RawPort| port.name.as_ref().map(|at| at.value.clone());
        if let Some(old) = self.ports.iter_mut().find(|old| name(old) == name(&port)) {
            *old = port;
        }
    }
}

/// A running node.
pub struct Node {
    config: NodeConfig,
    millrace: Millrace,
}

impl Node {
    /// Starts a node, in `namespace` if given, and waits until it answers.
    pub fn start(rig: &Rig, config: NodeConfig, namespace: Option<&Namespace>) -> Result<Node, RigError> {
        let files = Files::named(rig.directory.path(), config.name);
        let surroundings = Surroundings { namespace, priority: config.scheduling.priority };
        let millrace = millrace::start(rig.millrace(), files, config.file(), surroundings, rig.interrupt())?;
        Ok(Node { config, millrace })
    }

    /// Waits until all its ports are up, as long as `others` succeeds.
    pub fn wait_up(&mut self, others: impl FnMut() -> lab::Result<()>) -> Result<(), RigError> {
        Ok(self.millrace.wait_all_up(others)?)
    }

    /// Replaces the port of the same name by `port` in the running node. The other ports are not affected.
    pub fn replace(&mut self, port: RawPort) -> Result<(), RigError> {
        self.config.replace(port);
        self.millrace.files().configure(self.config.file())?;
        self.millrace.reload()?;
        Ok(())
    }

    /// Returns the processor time used so far.
    pub fn cpu_time(&mut self) -> Result<Duration, RigError> {
        Ok(self.millrace.daemon.cpu_time()?)
    }

    /// Returns all its counters as they are now.
    pub fn look(&mut self) -> Result<Snapshot, RigError> {
        self.millrace.daemon.check("the end of the measurement")?;
        Ok(self.millrace.stats()?)
    }
}

/// The time between two readings of a node's counters.
#[derive(Clone, Copy)]
pub struct Interval<'s> {
    /// The counters at its beginning.
    pub before: &'s Snapshot,
    /// The counters at its end.
    pub after: &'s Snapshot,
}

impl Interval<'_> {
    /// Returns the growth of a counter. It restarts at zero when a port was removed and added.
    pub fn growth(&self, counter: impl Fn(&Snapshot) -> u64) -> u64 {
        counter(self.after).saturating_sub(counter(self.before))
    }

    /// Returns the node's drops, by port and reason, with `prefix` in front.
    pub fn drops(&self, prefix: &str) -> BTreeMap<String, u64> {
        let mut drops = BTreeMap::new();
        for port in &self.after.ports {
            for reason in port.drops.keys() {
                let count = |s: &Snapshot| s.ports.iter().find(|p| p.name == port.name)?.drops.get(reason).copied();
                let dropped = self.growth(|s| count(s).unwrap_or(0));
                if dropped > 0 {
                    drops.insert(format!("{prefix}{}: {reason}", port.name), dropped);
                }
            }
        }
        drops
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::millrace::Idle;
    use lab::millrace::config::{Generator, sink, vhost_user};

    #[test]
    fn millrace_takes_the_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = NodeConfig {
            name: "a",
            ports: vec![
                port("near", Generator { size: 64.into(), ..Generator::default() }),
                driver("wan", &directory.path().join("s"), 256),
            ],
            patches: vec![["near", "wan"]],
            mappings: Vec::new(),
            scheduling: Scheduling { cpu: 0, idle: Idle::Sleep, priority: None },
            rules: None,
        };
        let check = |config: &NodeConfig| crate::millrace::assert_takes(config.file());
        check(&config);
        config.rules = Some(NodeNumbers { own: 1, next: 2 });
        config.replace(aggregating(sink("wan"), true));
        check(&config);
        assert_eq!(config.file().ports.len(), 2);
        config.replace(aggregating(driver("wan", &directory.path().join("s"), 256), true));
        config.replace(vhost_user("near"));
        config.mappings = std::mem::take(&mut config.patches).into_iter().map(|[near, wan]| [wan, near]).collect();
        check(&config);
    }
}
