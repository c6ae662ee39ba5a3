//! Settings for measurements.

/// Changes to a port that show the cost of a part of the data path. No configuration can ask for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Analysis {
    /// Copies frames received here even if the port is mapped: from a physical port to the guest, or from a guest to
    /// the physical port. For vhost-user and virtio-user ports.
    pub copied: bool,
    /// Sends frames without copying them: descriptors move as usual, and the receiver finds the buffer's previous
    /// contents. For vhost-user and virtio-user ports.
    pub omit_copies: bool,
}
