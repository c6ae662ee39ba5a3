//! Outputs that send to a queue.

use super::key::OutputKey;
use std::collections::BTreeSet;

/// An output of a worker that sends to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::switch) struct Sender {
    pub(in crate::switch) worker: usize,
    /// An output for all that the worker polls. Lanes never send to a queue alone: their parent does, too.
    pub(in crate::switch) output: OutputKey,
}

/// The senders of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub(super) workers: BTreeSet<usize>,
    /// Queues that lanes also send to by themselves.
    pub(super) lanes: BTreeSet<usize>,
}

impl DomainSenders {
    pub(super) fn extend(&mut self, other: &DomainSenders) {
        self.workers.extend(&other.workers);
        self.lanes.extend(&other.lanes);
    }
}
