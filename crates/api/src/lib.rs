//! Messages of a switch and its clients at the control socket: calls ([`request`]), their results, errors ([`code`]) and
//! events ([`event`]).
//!
//! The switch makes its answers of these types, and clients read them, so that neither has a form of its own. All are JSON by
//! `serde`: with the feature `schema`, their schemas are part of the description of the API. Clients ignore fields that they do not
//! know, so that they can talk to a newer switch.
#![forbid(unsafe_code)]

pub mod code;
pub mod confinement;
pub mod event;
pub mod flow;
pub mod part;
pub mod port;
pub mod reload;
pub mod request;
pub mod stats;
pub mod why;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The answer to `version`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Version {
    /// Name of the program.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The answer to `aggregation`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Aggregation {
    /// Counters; `None` if aggregation is not configured.
    pub stats: Option<stats::AggregationStats>,
    /// The aggregation table.
    pub table: Vec<stats::AggregationFlow>,
}

/// The answer to `drops`: frames by port, stage and reason; those without any are left out.
pub type Drops = BTreeMap<String, BTreeMap<String, BTreeMap<String, u64>>>;
