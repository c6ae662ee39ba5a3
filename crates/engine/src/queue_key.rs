//! The key of a queue: how the control side and the workers name it.

/// A queue of a port. Unlike indices of a layout, it means the same queue after a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueueKey {
    /// Id of the port, unique while the switch runs.
    pub(crate) port: u64,
    /// Index of the queue in its port.
    pub(crate) queue: usize,
}
