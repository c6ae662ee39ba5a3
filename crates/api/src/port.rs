//! Ports without their counters.

use crate::part::Owner;
use crate::stats::{OffloadStats, PortStats, RecordingStats};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A port without its counters: the answer to `ports`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
