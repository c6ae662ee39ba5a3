//! Errors of a link.

use crate::SocketError;
use virtqueue::SetupError;

/// Error from a link to a device.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum FrontendError {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("{0} queue pairs; a vhost-user device has 1 to {max}", max = crate::MAX_QUEUE_PAIRS)]
    QueuePairs(u16),
    #[error("no vhost-user device answered in time")]
    Timeout,
    #[error("stopped while waiting for a vhost-user device")]
    Stopped,
    #[error("the device does not offer VIRTIO_F_VERSION_1; legacy devices are not supported")]
    Legacy,
    #[error("{wanted} queue pairs wanted, but the device has {offered}")]
    TooFewQueues { wanted: u16, offered: u64 },
    #[error(
        "the device does not exchange in this way: list its port in an [[exchange]] of this mode in the switch's configuration, or, of mode group, give the ports of its owner the same `group`; `millrace ctl exchange` shows it"
    )]
    NoExchange,
    #[error("the device grants buffers in a way that is unknown here: its version differs")]
    Grant,
    #[error("the device is of another [[exchange]] than those of the function's other ports")]
    OtherGroup,
    #[error("the arena is too small for queue {0}; make it larger")]
    ArenaFull(usize),
    #[error("{count} memory regions; a device accepts {max}")]
    TooManyRegions { count: usize, max: usize },
    #[error("queue {index}: {source}")]
    Setup { index: usize, source: SetupError },
    #[error("the device refused {step} or hung up: {source}")]
    Refused { step: &'static str, source: vhost::Error },
    #[error("cannot {action}: {source}")]
    System { action: &'static str, source: std::io::Error },
}

/// Returns the error of a step that the device refused.
pub(super) fn refused(step: &'static str) -> impl FnOnce(vhost::Error) -> FrontendError {
    move |source| FrontendError::Refused { step, source }
}
