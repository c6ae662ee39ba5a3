//! Names of outputs and bridges, which mean the same in two layouts.

use crate::queue_id::QueueId;
use std::sync::Arc;

/// One queue of a port, or all its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::switch) struct Queues {
    /// Id of the port.
    pub(in crate::switch) port: u64,
    /// Index of the only queue in its port; all queues if `None`.
    pub(in crate::switch) only: Option<usize>,
}

impl Queues {
    /// Returns all queues of a port.
    pub(in crate::switch) fn all(port: u64) -> Queues {
        Queues { port, only: None }
    }

    /// Returns one queue.
    pub(in crate::switch) fn one(id: QueueId) -> Queues {
        Queues { port: id.port, only: Some(id.queue) }
    }

    /// Reports whether `id` is one of these.
    pub(in crate::switch) fn covers(self, id: QueueId) -> bool {
        self.port == id.port && self.only.is_none_or(|only| only == id.queue)
    }
}

/// An output of a worker: for all queues that it polls, or for one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::switch) struct OutputKey {
    pub(in crate::switch) to: Queues,
    /// The lane that it is for. It hands over what it may not send.
    pub(in crate::switch) lane: Option<QueueId>,
}

/// A bridge, as a worker forwards through it: for all queues that it polls, or for one lane.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::switch) struct BridgeKey {
    pub(in crate::switch) name: Arc<str>,
    pub(in crate::switch) lane: Option<QueueId>,
}
