//! Outputs that send to a queue.

use super::key::{OutputKey, Queues};
use crate::queue_id::QueueId;
use std::collections::{BTreeMap, BTreeSet};

/// An output of a worker that sends to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::switch) struct Sender {
    pub(in crate::switch) worker: usize,
    pub(in crate::switch) output: OutputKey,
}

/// The senders of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::switch) enum Senders {
    /// Nobody.
    None,
    /// One output of one worker, which needs no lock.
    One(Sender),
    /// Several outputs, or mirrors, which several workers drive.
    Several,
}

/// Workers that send the frames of a port, or those of the other ports of its domain.
#[derive(Clone, Default)]
pub(super) struct DomainSenders {
    /// To every queue.
    pub(super) everywhere: BTreeSet<usize>,
    /// By lane of a port's queues, which sends to the queue of its index by itself: the lane and its worker.
    pub(super) lanes: BTreeMap<usize, BTreeSet<(QueueId, usize)>>,
}

impl DomainSenders {
    pub(super) fn extend(&mut self, other: &DomainSenders) {
        self.everywhere.extend(&other.everywhere);
        for (&queue, senders) in &other.lanes {
            self.lanes.entry(queue).or_default().extend(senders);
        }
    }

    /// Returns the outputs that send to the queue of this index by way of `to`.
    pub(super) fn to(&self, to: Queues, queue: usize) -> impl Iterator<Item = Sender> {
        let everywhere = self.everywhere.iter();
        let everywhere = everywhere.map(move |&worker| Sender { worker, output: OutputKey { to, lane: None } });
        let lanes = self.lanes.get(&queue).into_iter().flatten();
        everywhere.chain(lanes.map(move |&(lane, worker)| {
            let output = OutputKey { to, lane: Some(lane) };
            Sender { worker, output }
        }))
    }
}
