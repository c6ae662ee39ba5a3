//! The interface that sockets are for.

/// A network interface, as the caller knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, for messages.
    pub name: String,
    /// Its index, which says which one is meant: names come back.
    pub index: u32,
    /// Number of receive queues in use: the sockets' queues count from 0 to one below.
    pub queues: u32,
}
