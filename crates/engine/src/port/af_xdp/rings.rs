//! The rings of a socket, by direction.

use xsk::{Completion, Fill, Rx, Tx};

/// Rings of the receive direction.
pub(super) struct RxRings {
    /// Received frames.
    pub(super) rx: Rx,
    /// Buffers for frames.
    pub(super) fill: Fill,
}

/// Rings of the transmit direction.
pub(super) struct TxRings {
    /// Frames to send.
    pub(super) tx: Tx,
    /// Buffers of sent frames.
    pub(super) completion: Completion,
}
