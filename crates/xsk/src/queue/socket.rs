//! The socket shared by the halves of a queue. It is closed when the last half is dropped.

use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use rustix::net::sockopt;

use super::config::Bound;
use crate::Umem;

/// `XDP_MAX_TX_SKB_BUDGET` of linux/if_xdp.h.
const MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// A bound socket and its memory. The fields are dropped in this order: the owner of the memory last.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(super) fd: OwnedFd,
    pub(super) bound: Bound,
    pub(super) umem: Arc<Umem>,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Raises the number of frames sent per wake-up. Returns false if the kernel does not support this.
pub(super) fn set_tx_budget(socket: BorrowedFd<'_>, budget: u32) -> io::Result<bool> {
    // SAFETY: the kernel reads this many bytes from a local that lives until the call returns.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            MAX_TX_SKB_BUDGET,
            (&raw const budget).cast(),
            size_of_val(&budget) as libc::socklen_t,
        )
    };
    if result == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENOPROTOOPT) { Ok(false) } else { Err(error) }
}

/// Kernel counters of a socket since it was opened. Kernels before 5.9 leave the last three at 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Frames dropped because they were too long for a chunk, because the fill ring was empty, and so on; excluding those
    /// that found the receive ring full.
    pub rx_dropped: u64,
    /// Fill ring entries with an invalid address. Not all of those are counted.
    pub rx_invalid: u64,
    /// Invalid transmit descriptors.
    pub tx_invalid: u64,
    /// Frames dropped because the receive ring was full.
    pub rx_ring_full: u64,
    /// Number of times the fill ring was empty when a frame needed a chunk.
    pub fill_ring_empty: u64,
    /// Number of times the transmit ring was empty when the kernel looked for frames to send.
    pub tx_ring_empty: u64,
}

/// A view of an open queue for reading statistics: it does not keep the queue open.
#[derive(Clone, Debug)]
pub struct Monitor {
    pub(super) socket: Weak<Socket>,
}

impl Monitor {
    /// Returns the kernel's counters; `None` once the queue is closed.
    pub fn statistics(&self) -> Option<io::Result<Statistics>> {
        let socket = self.socket.upgrade()?;
        Some(sockopt::xdp_statistics(&*socket).map_err(io::Error::from).map(|counts| Statistics {
            rx_dropped: counts.rx_dropped,
            rx_invalid: counts.rx_invalid_descs,
            tx_invalid: counts.tx_invalid_descs,
            rx_ring_full: counts.rx_ring_full.unwrap_or(0),
            fill_ring_empty: counts.rx_fill_ring_empty_descs.unwrap_or(0),
            tx_ring_empty: counts.tx_ring_empty_descs.unwrap_or(0),
        }))
    }
}
