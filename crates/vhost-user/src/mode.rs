//! The side that listens.

/// This side's role on the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// This side creates the socket and accepts connections.
    Server,
    /// The peer listens; this side connects.
    Client,
}
