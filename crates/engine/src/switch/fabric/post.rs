//! A worker, and the slots of its plan.

use super::slots::Slots;
use crate::forward::{NO_OUTPUT, OutputTerms, Target};
use crate::queue_id::QueueId;
use crate::spec::WorkerSpec;
use crate::switch::layout::{BridgeKey, BridgeTerms, MappedQueue, OutputKey, Queues, To};
use crate::worker::{OutputQueue, Worker};
use std::collections::BTreeSet;

/// A worker, and what its plan has.
pub(super) struct Post {
    pub(super) spec: WorkerSpec,
    pub(super) worker: Worker,
    pub(super) outputs: Slots<OutputKey, OutputTerms>,
    pub(super) bridges: Slots<BridgeKey, BridgeTerms>,
    /// Ports of which it polls queues, up or down.
    pub(super) polls: BTreeSet<u64>,
}

impl Post {
    pub(super) fn new(spec: WorkerSpec, worker: Worker) -> Post {
        Post { spec, worker, outputs: Slots::default(), bridges: Slots::default(), polls: BTreeSet::new() }
    }

    /// Returns where frames go, by slots.
    pub(super) fn target(&self, to: &To) -> Target {
        let target = match to {
            To::Output(key) => self.outputs.of(key).map(Target::Patch),
            To::Bridge(key, from) => self.bridges.of(key).map(|bridge| Target::Bridge { bridge, from: *from }),
            To::Nowhere => None,
        };
        target.unwrap_or(Target::Nowhere)
    }

    /// Returns a mapped queue by the slot of its output.
    pub(super) fn mapped(&self, mapped: Option<MappedQueue>) -> Option<OutputQueue> {
        let MappedQueue { output, queue } = mapped?;
        Some(OutputQueue { output: self.outputs.of(&output)?, queue })
    }

    /// Returns the outputs that go to a queue, or hand over what goes there.
    pub(super) fn outputs_to(&self, id: QueueId) -> impl Iterator<Item = OutputKey> {
        let of = |only, lane| OutputKey { to: Queues { port: id.port, only }, lane };
        let all = self.outputs.range(of(None, None)..).take_while(move |key| key.to.port == id.port);
        all.filter(move |key| key.to.covers(id))
    }

    /// Returns the slots of outputs for the places of a bridge.
    pub(super) fn slots_by_place(&self, keys: &[Option<OutputKey>]) -> Vec<usize> {
        keys.iter().map(|key| key.and_then(|key| self.outputs.of(&key)).unwrap_or(NO_OUTPUT)).collect()
    }

    /// Returns the slots of outputs.
    pub(super) fn slots(&self, keys: &[OutputKey]) -> Vec<usize> {
        keys.iter().filter_map(|key| self.outputs.of(key)).collect()
    }

    /// Reports whether it can send packets of controllers.
    pub(super) fn emits(&self) -> bool {
        self.bridges.iter().any(|(key, _, terms)| key.lane.is_none() && terms.bridge.flows.is_some())
    }
}
