//! A worker's part of a layout.

use super::key::{BridgeKey, OutputKey};
use super::wiring::To;
use super::{Domain, Joined, Layout};
use crate::forward::OutputTerms;
use crate::forward::bridge::Bridge;
use crate::queue_id::QueueId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The ports that a worker sends to, and the bridges that it forwards through.
#[derive(Default)]
pub(in crate::switch) struct WorkerLayout {
    pub(in crate::switch) outputs: BTreeMap<OutputKey, OutputTerms>,
    pub(in crate::switch) bridges: BTreeMap<BridgeKey, BridgeTerms>,
    /// Ports of which the worker polls queues, up or down.
    pub(in crate::switch) polls: BTreeSet<u64>,
}

/// A bridge, and the worker's outputs for its places.
#[derive(Clone)]
pub(in crate::switch) struct BridgeTerms {
    pub(in crate::switch) bridge: Arc<Bridge>,
    /// By place of the bridge; `None` where no port stands.
    pub(in crate::switch) outputs: Vec<Option<OutputKey>>,
}

impl PartialEq for BridgeTerms {
    fn eq(&self, other: &BridgeTerms) -> bool {
        Arc::ptr_eq(&self.bridge, &other.bridge) && self.outputs == other.outputs
    }
}

impl Layout {
    /// Returns the part of `worker`. Lanes have outputs of their own only while their queues are up.
    pub(in crate::switch) fn of_worker(&self, worker: usize, is_up: impl Fn(QueueId) -> bool) -> WorkerLayout {
        let mut part = WorkerLayout::default();
        let queues = self.ports.iter().zip(&self.assignment).zip(&self.positions);
        for ((port, pollers), position) in queues {
            // In a domain, all queues go the same way.
            let mine = pollers.polled_by(worker);
            for queue in mine.take(if position.is_some() { 1 } else { usize::MAX }) {
                part.polls.insert(port.id);
                self.add(port.queue(queue), None, worker, &mut part);
            }
        }
        for Joined { physical, guest } in &self.joined {
            for (id, to) in [(*physical, guest.port), (*guest, physical.port)] {
                if self.poller(id) == Some(worker) {
                    self.add_output(self.output_to(id, to), worker, &mut part);
                }
            }
        }
        for lane in self.lanes_of(worker) {
            let queue = QueueId { lane: None, ..lane };
            part.polls.insert(lane.port);
            if !self.sharing_of(queue).is_some_and(|sharing| sharing.has_parent()) {
                self.add(queue, None, worker, &mut part);
            } else if is_up(queue) {
                self.add(queue, Some(lane), worker, &mut part);
            }
        }
        part
    }

    /// Adds the way of a queue's frames, by outputs for `lane` or for all.
    fn add(&self, id: QueueId, lane: Option<QueueId>, worker: usize, part: &mut WorkerLayout) {
        if let To::Bridge(key, _) = self.to(id, lane) {
            if part.bridges.contains_key(&key) {
                return;
            }
            let bridge = self.index(id.port).and_then(|port| self.domain_of(port));
            if let Some(Domain::Bridge { bridge, .. }) = bridge {
                part.bridges
                    .insert(key, BridgeTerms { bridge: bridge.clone(), outputs: self.outputs_by_place(id, lane) });
            }
        }
        self.outputs(id, lane).into_iter().for_each(|output| self.add_output(output, worker, part));
    }

    fn add_output(&self, key: OutputKey, worker: usize, part: &mut WorkerLayout) {
        part.outputs.entry(key).or_insert_with(|| self.terms(key, worker));
    }

    fn terms(&self, OutputKey { to, lane }: OutputKey, worker: usize) -> OutputTerms {
        let Some(port) = self.index(to.port) else { return OutputTerms::default() };
        let config = match (self.domain_of(port), self.place_of(port)) {
            (Some(Domain::Bridge { bridge, .. }), Some(place)) => {
                bridge.flows.as_ref().map(|of| of.configs[place].clone())
            }
            _ => None,
        };
        // A mapped port sends chains without a copy, and returns them by the queue that they came from.
        let joins_all = self.ports[port].member().is_some() && lane.is_none() && !self.is_mapped(to.port);
        OutputTerms { config, one: joins_all.then_some(worker) }
    }

    /// Reports whether an output sends to this queue of its port by itself.
    pub(in crate::switch) fn sends(&self, key: OutputKey, queue: usize) -> bool {
        match key.lane {
            Some(QueueId { port, lane: Some(lane), .. }) => {
                self.index(port).is_some_and(|port| self.lane_sends(port, lane, queue))
            }
            _ => true,
        }
    }
}
