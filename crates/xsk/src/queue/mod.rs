//! A socket bound to one queue of an interface, and its four halves.

#[cfg(feature = "analysis")]
mod by_hand;
mod config;
mod halves;
mod open;
mod release;
mod socket;

use std::os::fd::{AsFd, BorrowedFd};

#[cfg(feature = "analysis")]
pub use by_hand::Kernel;
pub use config::{Bound, Mode, QueueConfig};
pub use halves::{Completion, Fill, Rx, Sending, Tx};
pub(crate) use socket::Socket;
pub use socket::{Monitor, Statistics};

/// An open queue of an interface, in both directions.
///
/// The halves may be taken out and go to different threads. The queue is released once all four are dropped, in any
/// order and by any thread; [`Bound::wait_released`] waits until the kernel has done so.
#[derive(Debug)]
pub struct Queue {
    /// Lends chunks to receive frames in.
    pub fill: Fill,
    /// Receives frames.
    pub rx: Rx,
    /// Sends frames.
    pub tx: Tx,
    /// Returns sent frames.
    pub completion: Completion,
}

impl Queue {
    /// Returns its binding.
    pub fn bound(&self) -> &Bound {
        self.rx.bound()
    }

    /// Returns a view for reading statistics.
    pub fn monitor(&self) -> Monitor {
        self.rx.monitor()
    }
}

/// File descriptor for poll and epoll: readable when frames wait, writable when the transmit ring has room.
impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.rx.as_fd()
    }
}
