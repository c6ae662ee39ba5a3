//! Network interface of the sockets.

/// A network interface, as described by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, for messages.
    pub name: String,
    /// Index of the interface, which identifies it: names are reused.
    pub index: u32,
    /// Number of receive queues in use: queues are numbered from 0 to one below.
    pub queues: u32,
}
