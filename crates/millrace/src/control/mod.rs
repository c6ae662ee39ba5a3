//! The control socket: JSON-RPC 2.0 over a unix socket, one message per line.

mod description;
mod failure;
mod methods;
mod rpc;
mod server;

pub use description::{openrpc, page};
pub use server::Server;

use crate::parts::Refusal;
use api::confinement::Confined;
use api::event::Event;
use api::flow::Flow;
use api::part::{Change, PartKind};
use api::port::PortSummary;
use api::reload::ReloadReport;
use engine::events::{CannotFollow, Follower};
use engine::stats::{AggregationFlow, MacEntry, PortState, Snapshot};
use engine::why::PortWhy;
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
    /// Returns the events after the one of this number that are kept, or of these the `last` ones.
    fn events(&self, since: Option<u64>, last: Option<usize>) -> Vec<Event>;
    /// Follows the events after the one of this number, or those to come; with those about addresses if what is `learned` is wanted.
    /// Also returns the number of the newest event.
    fn follow(&self, since: Option<u64>, learned: bool) -> Result<(Follower, u64), CannotFollow>;
    /// Returns the confinement in force.
    fn confinement(&self) -> Confined;
    /// Starts to stop the switch, and returns at once.
    fn shutdown(&self);
}

/// Longest line of a message to the switch, in bytes, without the line end.
pub const LONGEST_LINE: usize = 64 * 1024;
