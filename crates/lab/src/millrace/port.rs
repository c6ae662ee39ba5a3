//! A port's counters.

use crate::{Error, Result};
use engine::stats::{PortStats, QueueStats, Snapshot};
use std::collections::BTreeMap;

/// A port's counters, all queues together.
#[derive(Debug)]
pub struct Port(pub PortStats);

impl Port {
    pub(super) fn of(stats: &Snapshot, name: &str) -> Result<Port> {
        let port = stats.ports.iter().find(|port| port.name == name).cloned();
        port.map(Port).ok_or_else(|| Error::malformed("Millrace's counters", format!("there is no port {name}")))
    }

    fn sum(&self, of: impl Fn(&QueueStats) -> u64) -> u64 {
        self.0.queues.iter().map(of).sum()
    }

    /// Returns the frames that the switch received from the port.
    pub fn rx(&self) -> u64 {
        self.sum(|queue| queue.rx_packets)
    }

    /// Returns the frames that the switch sent to the port.
    pub fn tx(&self) -> u64 {
        self.sum(|queue| queue.tx_packets)
    }

    /// Returns the bytes that the switch received from the port.
    pub fn rx_bytes(&self) -> u64 {
        self.sum(|queue| queue.rx_bytes)
    }

    /// Returns the bytes that the switch sent to the port.
    pub fn tx_bytes(&self) -> u64 {
        self.sum(|queue| queue.tx_bytes)
    }

    /// Returns the frames dropped, by reason.
    pub fn drops(&self) -> &BTreeMap<String, u64> {
        &self.0.drops
    }

    /// Returns the frames dropped, for any reason.
    pub fn dropped(&self) -> u64 {
        self.0.drops.values().sum()
    }
}
