//! A socket bound to one queue of an interface, and the four halves that it comes apart into.

mod config;
mod halves;
mod open;
mod release;
mod socket;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::{Interface, Result, Umem};
pub use config::{Bound, Mode, QueueConfig};
pub use halves::{Completion, Fill, Rx, Sending, Tx};
pub(crate) use socket::Socket;
pub use socket::{Monitor, Statistics};

/// A queue of an interface, open: both directions of it.
///
/// The halves may be taken out and go to different threads. The queue is released once all four are dropped, in any
/// order and by any thread; [`Bound::wait_released`] says when the kernel has done so.
#[derive(Debug)]
pub struct Queue {
    /// Lends chunks to receive frames in.
    pub fill: Fill,
    /// Receives frames.
    pub rx: Rx,
    /// Sends frames.
    pub tx: Tx,
    /// Says which frames were sent.
    pub completion: Completion,
}

impl Queue {
    /// Opens the queue of an interface of the calling thread's network namespace.
    ///
    /// If the memory already serves an open queue, this one shares it, and with it the mode, how it is woken and
    /// whether frames have several parts: what is asked for must agree.
    pub fn open(umem: &Arc<Umem>, interface: &Interface, queue: u32, config: &QueueConfig) -> Result<Self> {
        config.check(&interface.name)?;
        open::open(umem, interface, queue, config)
    }

    /// What it is bound to, and how.
    pub fn bound(&self) -> &Bound {
        self.rx.bound()
    }

    /// A view for who counts.
    pub fn monitor(&self) -> Monitor {
        self.rx.monitor()
    }
}

/// For poll and epoll: readable when frames wait, writable when the transmit ring has room.
impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.rx.as_fd()
    }
}
