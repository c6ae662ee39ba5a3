//! Who listens.

/// Which end of the socket is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// We create the socket and accept connections.
    Server,
    /// The peer does, and we connect.
    Client,
}
