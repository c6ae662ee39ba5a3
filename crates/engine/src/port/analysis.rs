//! Settings for comparison and analysis.

/// Changes to a port for comparison and analysis. They have no other use, and no configuration can ask for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Analysis {
    /// Copies every received frame into a private buffer first, as switches with packet pools do.
    pub staged: bool,
    /// Copies frames received here even if the port is mapped: from a physical port to the guest, or from a guest to
    /// the physical port. For vhost-user and virtio-user ports.
    pub copied: bool,
    /// Sends frames without copying them: descriptors move as usual, and the receiver finds the buffer's previous
    /// contents. For vhost-user and virtio-user ports.
    pub omit_copies: bool,
}
