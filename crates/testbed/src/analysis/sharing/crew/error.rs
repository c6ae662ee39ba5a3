//! Errors of measuring a crew.

use loadgen::cpu::PinError;
use nf::crew::CrewError;
use nf::{OpenError, RunError};

/// Error of measuring a crew.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum CrewSubjectError {
    #[error("a temporary directory can't be made: {0}")]
    Directory(std::io::Error),
    #[error(transparent)]
    Device(#[from] vhost_user::backend::Error),
    #[error("the device and the port did not start their queues")]
    NoQueues,
    #[error("{sent} of {wanted} frames fit into the receive queue: the port has not posted enough buffers")]
    NoRoom { sent: usize, wanted: usize },
    #[error("the port broke a ring: {0}")]
    Ring(#[from] virtqueue::Fatal),
    #[error("{left} of {sent} frames did not come back")]
    Lost { left: usize, sent: usize },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Crew(#[from] CrewError),
    #[error(transparent)]
    Pin(#[from] PinError),
}
