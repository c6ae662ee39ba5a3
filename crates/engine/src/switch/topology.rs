//! The running specification, for all readers.

use super::acceleration::Chosen;
use super::layout::{Domain, Layout, Places};
use super::mapping::Mapping;
use crate::forward::bridge::Bridge;
use crate::port::Exchange;
use crate::queue_id::QueueId;
use crate::spec::{BridgeSpec, Spec};
use crate::worker::Pulse;
use std::sync::Arc;

/// The running specification, its layout and its workers. It never changes: another one replaces it.
pub(super) struct Topology {
    pub(super) spec: Spec,
    /// The parts of it that the switch has chosen.
    pub(super) chosen: Chosen,
    pub(super) layout: Arc<Layout>,
    /// Mappings, a pair of queues each, in the order of [`Layout::joined`].
    pub(super) mappings: Vec<Arc<Mapping>>,
    /// Groups of ports whose functions exchange buffers, in the order of the specification.
    pub(super) exchanges: Vec<Arc<Exchange>>,
    pub(super) workers: Vec<Arc<Pulse>>,
}

impl Topology {
    /// Returns the bridges, each with its specification and the ports at its places.
    pub(super) fn bridges(&self) -> impl Iterator<Item = (&BridgeSpec, &Arc<Bridge>, &Places)> {
        let domains = self.layout.domains.iter().filter_map(|domain| match domain {
            Domain::Bridge { bridge, places, .. } => Some((bridge, places)),
            Domain::Patch(_) => None,
        });
        self.spec.bridges.iter().zip(domains).map(|(spec, (bridge, places))| (spec, bridge, places))
    }

    /// Describes the place of a worker for display.
    pub(super) fn place(&self, pulse: &Pulse) -> String {
        let place = pulse.counters.place.get();
        let activity = place.activity().name();
        let Some(QueueId { port, queue, lane }) = place.queue() else { return activity.into() };
        match self.layout.ports.iter().find(|shared| shared.id == port) {
            Some(shared) => {
                let lane = lane.map_or_else(String::new, |lane| format!(" lane {lane}"));
                format!("port \"{}\" queue {queue}{lane} ({activity})", shared.name)
            }
            None => format!("a port that has gone ({activity})"),
        }
    }
}
