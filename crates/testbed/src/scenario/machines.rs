//! Containers and machines of a scenario.

use serde::Deserialize;

/// Container of each traffic application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Containers {
    /// A network namespace of its own.
    #[default]
    Namespaces,
    /// An LXC container of its own.
    Lxc,
}

/// The second machine of tests between two hosts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OtherMachine {
    /// Command that runs the testbed's program there; the program's arguments follow it.
    pub command: Vec<String>,
    /// The network cards that a cable joins: that of this machine, and that of the other.
    pub cards: [String; 2],
    /// Processors to use there; by default all that the program may run on.
    #[serde(default)]
    pub processors: Option<Vec<usize>>,
}

impl OtherMachine {
    /// Returns the reason why it can't be used, if there is one.
    pub fn problem(&self) -> Option<&'static str> {
        match () {
            () if self.command.is_empty() => Some("command: give the command line that runs the testbed there"),
            () if self.processors.as_ref().is_some_and(Vec::is_empty) => Some("processors: give at least one"),
            () => None,
        }
    }
}
