//! The identity of a queue: how the control side and the workers name it.

/// A queue of a port, or a lane of a queue that several workers share. It means the same queue after a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QueueId {
    /// Id of the port, unique while the switch runs.
    pub(crate) port: u64,
    /// Index of the queue in its port.
    pub(crate) queue: usize,
    /// Index of the lane in its queue; the queue itself if `None`.
    pub(crate) lane: Option<usize>,
}

impl QueueId {
    /// Returns a queue of a port.
    pub(crate) const fn new(port: u64, queue: usize) -> QueueId {
        QueueId { port, queue, lane: None }
    }

    /// Returns a lane of the queue.
    pub(crate) const fn lane(self, lane: usize) -> QueueId {
        QueueId { lane: Some(lane), ..self }
    }
}
