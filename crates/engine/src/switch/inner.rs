//! State of the switch that its threads share.

use super::error::Error;
use super::fabric::Fabric;
use super::observer::Observer;
use super::open::Connection;
use super::topology::Topology;
use crate::events::Events;
use crate::forward::flows::Datapath;
use crate::live::Live;
use crate::port::files::FileUses;
use crate::spec::AggregationSpec;
use crate::stats::AggregationFlow;
use crate::worker::Unresponsive;
use handover::EventNotifier;
use paflow::AggregationRules;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// See the module.
pub(super) struct Inner {
    pub(super) fabric: Arc<Fabric>,
    /// Locked while the specification changes, which may take long, as it waits for workers and guests.
    pub(super) open: Mutex<Open>,
    pub(super) topology: Live<Topology>,
    /// The log of events.
    pub(super) events: Arc<Events>,
    /// Finds events that nobody else tells of.
    pub(super) observer: Mutex<Observer>,
    /// The files of the specification.
    pub(super) files: Arc<FileUses>,
    /// Rules of the ports that aggregate.
    pub(super) rules: Arc<Live<AggregationRules>>,
    /// Sources of these rules.
    pub(super) laid: Mutex<Laid>,
    /// Flows of the bridge that forwards by them.
    pub(super) datapath: Arc<Datapath>,
    /// Signalled when workers have packets for controllers, or flows relayed by other switches.
    pub(super) notifier: Arc<EventNotifier>,
    /// Signalled when neighbours have asked for the switch's addresses.
    pub(super) asked: Arc<EventNotifier>,
    pub(super) started: Instant,
    pub(super) stop: AtomicBool,
    /// Whether everything has stopped, so that the watchdog can end.
    pub(super) is_over: AtomicBool,
}

/// Aggregation of the specification, and flows laid over those it has.
#[derive(Default)]
pub(super) struct Laid {
    pub(super) spec: Option<AggregationSpec>,
    pub(super) flows: Vec<AggregationFlow>,
}

/// Connections of the switch's ports.
#[derive(Default)]
pub(super) struct Open {
    /// By id of the port.
    pub(super) connections: HashMap<u64, Connection>,
    /// Number of ports that there have been: each gets the next one as its id.
    pub(super) opened: u64,
}

impl Inner {
    /// Returns the running specification.
    pub(super) fn topology(&self) -> Arc<Topology> {
        self.topology.get()
    }

    /// Checks that all workers respond.
    pub(super) fn respond(&self) -> Result<(), Error> {
        self.fabric.respond().map_err(|Unresponsive(worker)| {
            let topology = self.topology();
            let place = topology.workers.get(worker).map(|pulse| topology.place(pulse));
            Error::Unresponsive { worker, place: place.unwrap_or_default() }
        })
    }
}
