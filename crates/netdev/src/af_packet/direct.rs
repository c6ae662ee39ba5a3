//! Frames that the kernel copies straight from where they lie: one system call each.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use packet::MAX_FRAME;
use packet::offload::header;

use super::layout::TxConfig;
use super::socket::{NO_PROTOCOL, Socket};
use crate::error::Result;
use crate::link::Link;
use crate::segment::RawSegment;

/// Bytes of frames in flight: 127 of the longest, with the kernel's own bookkeeping.
const IN_FLIGHT: usize = 8 << 20;

const _: () = assert!(IN_FLIGHT >= 100 * MAX_FRAME as usize);

/// A socket for frames that are too long for a slot of the transmit ring. A socket with a ring sends nothing but the ring's frames.
#[derive(Debug)]
pub(super) struct Direct {
    socket: OwnedFd,
    /// For the pieces of one frame, so that none is allocated for each.
    pieces: RefCell<Vec<RawSegment>>,
}

impl Direct {
    pub(super) fn open(link: &Link, config: &TxConfig) -> Result<Direct> {
        let socket = Socket::open(link)?;
        config.apply(&socket)?;
        socket.set_send_buffer(IN_FLIGHT)?;
        socket.bind(NO_PROTOCOL)?;
        Ok(Direct { socket: socket.into_fd(), pieces: RefCell::default() })
    }

    /// Hands one frame to the kernel, with its virtio header, and does not wait.
    ///
    /// # Safety
    /// Until the call returns, the address range of every segment must stay reserved for memory that the caller may read.
    pub(super) unsafe fn send(
        &self,
        header: &[u8; header::LEN],
        segments: impl Iterator<Item = RawSegment>,
    ) -> io::Result<()> {
        let mut pieces = self.pieces.borrow_mut();
        pieces.clear();
        pieces.push(RawSegment::from(&header[..]));
        pieces.extend(segments);
        let count = pieces.len().min(libc::c_int::MAX as usize) as libc::c_int;
        // SAFETY: RawSegment is repr(transparent) over iovec, so this is an array of `count` of them; the header lives until the call
        // returns, and the caller vouches for the rest.
        let written = unsafe { libc::writev(self.socket.as_raw_fd(), RawSegment::as_iovecs(&pieces), count) };
        if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
