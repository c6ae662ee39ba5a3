//! Frames that were not sent, and why.

/// Error: a frame was not put into the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// Every slot is pending or still with the driver, or the socket has as many long frames in flight as it may.
    #[error("the transmit ring is full: flush, and try again later")]
    Full,
    /// The frame is longer than the interface can carry.
    #[error("the frame has {len} bytes, and the interface allows {max}")]
    TooLong {
        /// Length of the frame.
        len: usize,
        /// Longest frame allowed.
        max: usize,
    },
    /// The frame is shorter than an Ethernet header.
    #[error("the frame has {len} bytes, fewer than an Ethernet header")]
    TooShort {
        /// Length of the frame.
        len: usize,
    },
}

/// The outcome of one flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "frames that were not sent are drops to count"]
pub struct Flushed {
    /// Frames handed to the kernel.
    pub sent: usize,
    /// Frames left in the ring for the next flush: the socket's limit of frames in flight is reached, or the kernel has
    /// refused many in this flush.
    pub pending: usize,
    /// Frames lost because the kernel finds them malformed, for example when the MTU was lowered before the monitor noticed.
    pub wrong_format: usize,
    /// Frames lost because a queue, a filter or the driver refused them.
    pub refused: usize,
    /// Frames lost because the interface is down or gone.
    pub link_down: usize,
}

impl Flushed {
    /// Counts one frame that was lost by this error of a system call.
    pub(super) fn lose(&mut self, loss: Loss) {
        let count = match loss {
            Loss::Malformed => &mut self.wrong_format,
            Loss::Refused => &mut self.refused,
            Loss::LinkDown => &mut self.link_down,
        };
        *count += 1;
    }
}

/// Why a frame is lost.
#[derive(Clone, Copy)]
pub(super) enum Loss {
    Malformed,
    Refused,
    LinkDown,
}
