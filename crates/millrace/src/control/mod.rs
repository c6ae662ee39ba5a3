//! The control socket: JSON-RPC 2.0 over a unix socket, one message a line.
//!
//! Methods take no parameters: `ports`, `stats`, `workers`, `mac`, `drops`, `mappings`, `aggregation`, `flows`,
//! `confinement`, `reload`, `shutdown`, `version`.

mod client;
mod flow;
mod reload;
mod rpc;
mod server;

pub use client::{Client, ClientError};
pub use flow::{Flow, Flows};
pub use reload::ReloadReport;
pub use server::Server;

use crate::confine::Confined;
use engine::stats::{AggregationFlow, AggregationStats, MacEntry, PortStats, Snapshot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The switch, as the control socket and the metrics endpoint see it. Called from several threads at a time.
pub trait Handler: Send + Sync {
    /// All that is counted, now.
    fn snapshot(&self) -> Snapshot;
    /// The MAC tables of all bridges.
    fn macs(&self) -> Vec<MacEntry>;
    /// The aggregation table, by service chain.
    fn aggregation_flows(&self) -> Vec<AggregationFlow>;
    /// The flows that controllers have set.
    fn flows(&self) -> Vec<Flow>;
    /// Reads the configuration again and applies it; the error says why nothing changed.
    fn reload(&self) -> Result<ReloadReport, String>;
    /// What the switch denies itself.
    fn confinement(&self) -> Confined;
    /// Begins to stop the switch, and returns at once.
    fn shutdown(&self);
}

/// Longest line of a message to the switch, in bytes, the line end not counted.
pub const LONGEST_LINE: usize = 64 * 1024;

/// A port without its counters: what `ports` answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSummary {
    /// Name from the configuration.
    pub name: String,
    /// Driver from the configuration.
    pub driver: String,
    /// Frames can pass.
    pub up: bool,
    /// One line for people.
    pub detail: String,
    /// Where the port's frames go.
    pub forwarding: String,
    /// Number of its queue pairs.
    pub queues: usize,
}

impl From<&PortStats> for PortSummary {
    fn from(port: &PortStats) -> Self {
        Self {
            name: port.name.clone(),
            driver: port.driver.clone(),
            up: port.up,
            detail: port.detail.clone(),
            forwarding: port.forwarding.clone(),
            queues: port.queues.len(),
        }
    }
}

/// What `aggregation` answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Aggregation {
    /// What is counted; none if aggregation is not configured.
    pub stats: Option<AggregationStats>,
    /// The aggregation table.
    pub table: Vec<AggregationFlow>,
}

/// What `version` answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Name of the program.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// What `drops` answers: frames by reason by port; ports and reasons without any are left out.
pub type Drops = BTreeMap<String, BTreeMap<String, u64>>;
