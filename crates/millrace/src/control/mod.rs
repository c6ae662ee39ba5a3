//! The control socket: JSON-RPC 2.0 over a unix socket, one message per line.
//!
//! Methods: `ports`, `stats`, `workers`, `mac`, `drops`, `mappings`, `exchange`, `aggregation`, `flows`, `confinement`, `reload`,
//! `shutdown`, `version`. They take no parameters; `why` takes the name of a port, as `{"port": "a"}`. Those that add, change and
//! remove parts are in `edit`.

mod api;
mod client;
mod edit;
mod failure;
mod flow;
mod reload;
mod rpc;
mod server;

pub use api::{openrpc, page};
pub use client::{Client, ClientError};
pub use flow::{Flow, Flows};
pub use reload::{Mended, ReloadReport};
pub use server::Server;

use crate::config::PartKind;
use crate::confine::Confined;
use crate::parts::{Change, Owner, Refusal};
use engine::stats::{
    AggregationFlow, AggregationStats, MacEntry, OffloadStats, PortState, PortStats, RecordingStats, Snapshot,
};
use engine::why::PortWhy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::Table;

/// The switch as seen by the control socket and the metrics endpoint. Called from several threads concurrently.
pub trait Handler: Send + Sync {
    /// Returns all counters as they are now.
    fn snapshot(&self) -> Snapshot;
    /// Returns all ports, without their counters.
    fn ports(&self) -> Vec<PortSummary>;
    /// Returns the state of a port, if there is such a port.
    fn port_state(&self, port: &str) -> Option<PortState>;
    /// Adds a part, with these keys of its section.
    fn add(&self, kind: PartKind, keys: Table) -> Result<Change, Refusal>;
    /// Gives a part other values for keys, or none; opens a port again only if it may (the last of the three).
    fn set(&self, kind: PartKind, name: &str, to: (Table, &[String], bool)) -> Result<Change, Refusal>;
    /// Removes a part.
    fn remove(&self, kind: PartKind, name: &str) -> Result<Change, Refusal>;
    /// Explains how frames get from a port to its peers and back, if there is such a port.
    fn why(&self, port: &str) -> Option<PortWhy>;
    /// Returns the MAC tables of all bridges.
    fn macs(&self) -> Vec<MacEntry>;
    /// Returns the aggregation table, by service chain.
    fn aggregation_flows(&self) -> Vec<AggregationFlow>;
    /// Returns the flows set by controllers.
    fn flows(&self) -> Vec<Flow>;
    /// Reads the configuration again and applies it; the error says why nothing changed.
    fn reload(&self) -> Result<ReloadReport, String>;
    /// Returns the confinement in force.
    fn confinement(&self) -> Confined;
    /// Starts to stop the switch, and returns at once.
    fn shutdown(&self);
}

/// Longest line of a message to the switch, in bytes, without the line end.
pub const LONGEST_LINE: usize = 64 * 1024;

/// A port without its counters: the answer to `ports`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortSummary {
    /// Name from the configuration.
    pub name: String,
    /// Driver from the configuration.
    pub driver: String,
    /// Whether frames can pass.
    pub up: bool,
    /// State in one line of text.
    pub detail: String,
    /// Forwarding of the port's frames.
    pub forwarding: String,
    /// Number of its queue pairs.
    pub queues: usize,
    /// The one who decides on it.
    #[serde(default)]
    pub owner: Owner,
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Capture files that frames of the port are recorded to.
    #[serde(default)]
    pub recordings: Vec<RecordingStats>,
    /// The work on frames that its peer may leave to the switch and takes over, and frames with such work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offloads: Option<OffloadStats>,
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
            owner: Owner::default(),
            labels: BTreeMap::new(),
            recordings: port.recordings.clone(),
            offloads: port.offloads.clone(),
        }
    }
}

/// The answer to `aggregation`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Aggregation {
    /// Counters; `None` if aggregation is not configured.
    pub stats: Option<AggregationStats>,
    /// The aggregation table.
    pub table: Vec<AggregationFlow>,
}

/// The answer to `version`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Name of the program.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The answer to `drops`: frames by port, stage and reason; those without any are left out.
pub type Drops = BTreeMap<String, BTreeMap<String, BTreeMap<String, u64>>>;
