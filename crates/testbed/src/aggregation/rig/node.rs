//! A node: Millrace with the given ports and one worker.

use super::place::Place;
use super::{Rig, RigError};
use crate::millrace::{Files, Millrace};
use crate::surroundings::Surroundings;
use engine::stats::Snapshot;
use lab::netns::Namespace;
use loadgen::traffic::CHAIN;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::path::Path;
use std::time::Duration;

/// A port of a node: a table `[[port]]`.
#[derive(Clone, Debug)]
pub struct Port {
    name: String,
    text: String,
}

impl Port {
    /// Creates a port of this driver.
    pub fn new(name: &str, driver: &str) -> Port {
        Port { name: name.to_owned(), text: format!("[[port]]\nname = \"{name}\"\ndriver = \"{driver}\"\n") }
    }

    /// Sets a number or boolean key.
    pub fn with(mut self, key: &str, value: impl Display) -> Port {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{key} = {value}");
        self
    }

    /// Sets a string or path key.
    pub fn with_text(self, key: &str, value: impl Display) -> Port {
        // Rust's string syntax is also valid in TOML, as long as it holds letters, digits and signs only.
        self.with(key, format!("{:?}", value.to_string()))
    }

    /// Creates a vhost-user port with the socket `NAME.sock` among the rig's files.
    pub fn guest(name: &str, rig: &Rig) -> Port {
        Port::new(name, "vhost-user").with_text("socket", rig.file(&format!("{name}.sock")).display())
    }

    /// Sets whether the port faces the network: packets are joined before they leave here, and split when they arrive.
    pub fn aggregating(self, aggregating: bool) -> Port {
        self.with("aggregate", aggregating)
    }
}

/// Identity of a node or network function, and the next hop of its packets of [`CHAIN`]. Both are numbers, from which addresses
/// are made.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Its own number.
    pub own: u8,
    /// The next hop's.
    pub next: u8,
}

impl Rules {
    /// Returns the section `[aggregation]`, with the next hop behind `port`, if given.
    pub fn section(self, port: Option<&str>) -> String {
        let Rules { own, next } = self;
        let port = port.map_or(String::new(), |port| format!("port = \"{port}\"\n"));
        format!(
            "[aggregation]\nmac = \"02:00:00:00:01:{own:02x}\"\naddresses = [\"192.0.2.{own}\"]\n\
             [[aggregation.next-hop]]\nnfi = 7\nmac = \"02:00:00:00:01:{next:02x}\"\nip = \"192.0.2.{next}\"\n{port}\
             [[aggregation.flow]]\nsc = {CHAIN}\nnfi = 7\n"
        )
    }
}

impl Display for Rules {
    /// The section `[aggregation]`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.section(None))
    }
}

impl Rules {
    /// Loads the rules, by writing them to a file.
    pub fn load(&self, file: &Path) -> Result<paflow::Rules, RigError> {
        let failed = |source| RigError::System { action: "the rules can't be written", source };
        std::fs::write(file, self.to_string()).map_err(failed)?;
        let spec = settings::aggregation::load(file, &[])?.spec();
        Ok(paflow::Rules::new(&spec, std::iter::empty()))
    }
}

/// Configuration of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Name of the node and its files.
    pub name: &'static str,
    /// Its ports.
    pub ports: Vec<Port>,
    /// Patched pairs of ports, by name.
    pub patches: Vec<[&'static str; 2]>,
    /// Pairs of ports, by name, of which the first is mapped to the second, as one wire.
    pub mappings: Vec<[&'static str; 2]>,
    /// Placement of its worker.
    pub place: Place,
    /// Rules for joining and splitting, at ports that aggregate.
    pub rules: Option<Rules>,
}

impl NodeConfig {
    /// Returns the configuration file, without `[control]`.
    pub fn text(&self) -> String {
        let mut text: String = self.ports.iter().map(|port| port.text.clone() + "\n").collect();
        // Writing to a string does not fail.
        for [a, b] in &self.patches {
            let _ = writeln!(text, "[[patch]]\nports = [\"{a}\", \"{b}\"]\n");
        }
        for [from, to] in &self.mappings {
            let _ = writeln!(text, "[[mapping]]\nfrom = \"{from}\"\nto = \"{to}\"\nmode = \"pass-through\"\n");
        }
        let _ = writeln!(text, "[[worker]]\ncpu = {}\nidle = \"{}\"", self.place.cpu, self.place.idle);
        if self.place.priority.is_some() {
            // Programs of lower priority wait for it to sleep.
            text += "patience = \"0s\"\n";
        }
        if let Some(rules) = &self.rules {
            let _ = writeln!(text, "{rules}");
        }
        text
    }

    /// Replaces the port of the same name by `port`.
    pub fn replace(&mut self, port: Port) {
        if let Some(old) = self.ports.iter_mut().find(|old| old.name == port.name) {
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
        let files = Files { directory: rig.directory.path(), name: config.name };
        let surroundings = Surroundings { namespace, priority: config.place.priority };
        let millrace = Millrace::start(rig.millrace(), files, &config.text(), surroundings, rig.interrupt())?;
        Ok(Node { config, millrace })
    }

    /// Waits until all its ports are up, as long as `others` succeeds.
    pub fn wait_up(&mut self, others: impl FnMut() -> lab::Result<()>) -> Result<(), RigError> {
        Ok(self.millrace.wait_up(others)?)
    }

    /// Replaces the port of the same name by `port` in the running node. The other ports are not affected.
    pub fn replace(&mut self, port: Port) -> Result<(), RigError> {
        self.config.replace(port);
        Ok(self.millrace.reload(&self.config.text())?)
    }

    /// Returns the processor time used so far.
    pub fn cpu_time(&mut self) -> Result<Duration, RigError> {
        Ok(self.millrace.daemon().cpu_time()?)
    }

    /// Returns all its counters as they are now.
    pub fn look(&mut self) -> Result<Snapshot, RigError> {
        self.millrace.daemon().check("the end of the measurement")?;
        Ok(self.millrace.snapshot()?)
    }
}

/// The time between two looks at a node's counters.
#[derive(Clone, Copy)]
pub struct Interval<'s> {
    /// The counters at its beginning.
    pub before: &'s Snapshot,
    /// The counters at its end.
    pub after: &'s Snapshot,
}

impl Interval<'_> {
    /// Returns the growth of a counter. It restarts at zero when a port was reopened.
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

    #[test]
    fn millrace_takes_the_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = NodeConfig {
            name: "a",
            ports: vec![
                Port::new("near", "generator").with("size", 64),
                Port::new("wan", "virtio-user").with_text("socket", directory.path().join("s").display()),
            ],
            patches: vec![["near", "wan"]],
            mappings: Vec::new(),
            place: Place { cpu: 0, idle: Idle::Sleep, priority: None },
            rules: None,
        };
        let check = |config: &NodeConfig| {
            let file = directory.path().join("m.toml");
            std::fs::write(&file, config.text()).unwrap();
            let read = millrace::config::Config::load(&file);
            assert!(read.is_ok(), "{read:?}");
        };
        check(&config);
        config.rules = Some(Rules { own: 1, next: 2 });
        config.replace(Port::new("wan", "sink").aggregating(true));
        check(&config);
        assert_eq!(config.text().matches("[[port]]").count(), 2);
        let wan = Port::new("wan", "virtio-user").with_text("socket", directory.path().join("s").display());
        config.replace(wan.aggregating(true));
        config.replace(Port::new("near", "vhost-user").with_text("socket", directory.path().join("n").display()));
        config.mappings = std::mem::take(&mut config.patches).into_iter().map(|[near, wan]| [wan, near]).collect();
        check(&config);
    }
}
