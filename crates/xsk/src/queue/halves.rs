//! The four halves of a queue. Each owns its side of one ring; all share the socket.
//!
//! Their fields are dropped in order: the ring is unmapped before the socket is released, and the last release closes
//! the socket, when nothing else keeps the queue bound.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::config::Bound;
use super::socket::{Monitor, Socket};
use crate::Umem;
use crate::ring::{Consumer, Descriptor, Producer, RingBurst};

/// The half that lends chunks of memory, in which the kernel puts received frames.
#[derive(Debug)]
pub struct Fill {
    pub(super) ring: Producer<u64>,
    pub(super) socket: Arc<Socket>,
}

impl Fill {
    /// Lends as many of the chunks at these addresses as fit, from the first on; returns their number.
    ///
    /// [`Umem::accepts`] must hold for each address, else it is lost. A lent chunk comes back with a frame, or when the
    /// queue is released.
    #[inline]
    pub fn push(&mut self, addresses: &[u64]) -> usize {
        let wanted = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        self.push_checked(addresses.iter().copied(), wanted)
    }

    /// Works as [`Self::push`], from an iterator; pass `&mut` of one to keep the rest.
    #[inline(always)]
    pub fn push_from(&mut self, addresses: impl IntoIterator<Item = u64>) -> usize {
        let addresses = addresses.into_iter();
        let wanted = self.ring.most_of(&addresses);
        self.push_checked(addresses, wanted)
    }

    #[inline(always)]
    fn push_checked(&mut self, addresses: impl IntoIterator<Item = u64>, wanted: u32) -> usize {
        let (umem, zero_copy) = (&self.socket.umem, self.socket.bound.zero_copy);
        self.ring.push(addresses, wanted, |address| {
            debug_assert!(umem.accepts(address, zero_copy), "{address:#x} would be lost");
            address
        })
    }

    /// Returns the number of chunks that fit.
    #[inline]
    pub fn room(&mut self) -> u32 {
        self.ring.room(u32::MAX)
    }

    /// Reports whether the driver needs a wake-up to look at new chunks. Query it each round: an answer may come late.
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }

    /// Wakes the driver, with recvfrom(2).
    pub fn wake(&self) -> io::Result<()> {
        match recv(&*self.socket, &mut [0u8; 0], RecvFlags::DONTWAIT) {
            // The driver is at work, or will find the entries anyway.
            Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns the memory.
    pub fn umem(&self) -> &Arc<Umem> {
        &self.socket.umem
    }
}

/// The half that receives frames.
#[derive(Debug)]
pub struct Rx {
    pub(super) ring: Consumer<Descriptor>,
    pub(super) socket: Arc<Socket>,
}

impl Rx {
    /// Returns up to `max` received frames, or parts of frames. The caller owns their chunks again.
    #[inline]
    pub fn burst(&mut self, max: u32) -> RingBurst<'_, Descriptor> {
        self.ring.burst(max)
    }

    /// Passes up to `max` received frames, or parts of frames, to `take`, until it refuses one, which stays. Returns the number of the
    /// others; the caller owns their chunks again.
    #[inline(always)]
    pub fn take_while(&mut self, max: u32, take: impl FnMut(Descriptor) -> bool) -> u32 {
        self.ring.take_while(max, take)
    }

    /// Returns the number of waiting frames, or parts of frames.
    #[inline]
    pub fn waiting(&mut self) -> u32 {
        self.ring.waiting(u32::MAX)
    }

    /// Sleeps in poll(2) until frames wait, which also wakes the driver if it needs that; returns false on timeout.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        let mut fds = [PollFd::new(&*self.socket, PollFlags::IN)];
        // A duration too large for the type means no timeout.
        let timeout = Timespec::try_from(timeout).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => Ok(fds[0].revents().contains(PollFlags::IN)),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns a view for reading statistics.
    pub fn monitor(&self) -> Monitor {
        Monitor { socket: Arc::downgrade(&self.socket) }
    }
}

/// Result of a wake-up to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// The kernel has taken everything pushed, or has stopped at a descriptor that it does not send.
    Done,
    /// The kernel has taken its limit: [`Bound::tx_budget`] frames, or as many as the interface had room for. The rest
    /// needs another wake-up.
    More,
}

/// The half that sends frames.
#[derive(Debug)]
pub struct Tx {
    pub(super) ring: Producer<Descriptor>,
    pub(super) socket: Arc<Socket>,
}

impl Tx {
    /// Queues as many of these frames for sending as fit, from the first on; returns their number.
    ///
    /// A frame for which [`Umem::sends`] is false is counted as invalid and never comes back. Others must not change until
    /// [`Completion`] returns them. Received descriptors may be sent unchanged. Push all parts of a frame or none: see
    /// [`Self::room`].
    #[inline]
    pub fn push(&mut self, frames: &[Descriptor]) -> usize {
        let wanted = u32::try_from(frames.len()).unwrap_or(u32::MAX);
        self.push_encoded(frames.iter().copied(), wanted)
    }

    /// Works as [`Self::push`], from an iterator; pass `&mut` of one to keep the rest.
    #[inline(always)]
    pub fn push_from(&mut self, frames: impl IntoIterator<Item = Descriptor>) -> usize {
        let frames = frames.into_iter();
        let wanted = self.ring.most_of(&frames);
        self.push_encoded(frames, wanted)
    }

    #[inline(always)]
    fn push_encoded(&mut self, frames: impl IntoIterator<Item = Descriptor>, wanted: u32) -> usize {
        let chunks = self.socket.umem.chunks();
        let encode = |frame: Descriptor| Descriptor { address: chunks.sent_address(frame.address), ..frame };
        self.ring.push(frames, wanted, encode)
    }

    /// Returns the number of descriptors that fit.
    #[inline]
    pub fn room(&mut self) -> u32 {
        self.ring.room(u32::MAX)
    }

    /// Reports whether the kernel waits for a wake-up before it sends: in copy mode it always does. Query it each
    /// round: an answer may come late.
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        !self.socket.bound.need_wakeup || self.ring.needs_wakeup()
    }

    /// Makes the kernel send, with sendto(2); in copy mode the sending happens in this call. Fails permanently only if
    /// the interface is down or gone.
    pub fn wake(&self) -> io::Result<Sending> {
        match send(&*self.socket, &[], SendFlags::DONTWAIT) {
            Ok(_) => Ok(Sending::Done),
            // NOBUFS: the interface's queue or the completion ring is full.
            Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => Ok(Sending::More),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns the memory.
    pub fn umem(&self) -> &Arc<Umem> {
        &self.socket.umem
    }
}

/// The half that returns sent frames.
#[derive(Debug)]
pub struct Completion {
    pub(super) ring: Consumer<u64>,
    pub(super) socket: Arc<Socket>,
}

impl Completion {
    /// Returns up to `max` addresses that the kernel is done with: for each pushed descriptor, its
    /// [`Umem::frame_address`]. Each address is consumed when it is read.
    ///
    /// For aligned chunks only [`Umem::filled_address`] is reliable: some kernels lose the lowest bit.
    #[inline]
    pub fn burst(&mut self, max: u32) -> impl ExactSizeIterator<Item = u64> {
        let chunks = self.socket.umem.chunks();
        self.ring.burst(max).map(move |address| chunks.frame_address(address))
    }

    /// Passes up to `max` of them to `take`, until it refuses one, which stays. Returns the number of the others.
    #[inline(always)]
    pub fn take_while(&mut self, max: u32, mut take: impl FnMut(u64) -> bool) -> u32 {
        let chunks = self.socket.umem.chunks();
        self.ring.take_while(max, |address| take(chunks.frame_address(address)))
    }

    /// Stores them in a slice; returns their number.
    #[inline]
    pub fn pop(&mut self, into: &mut [u64]) -> usize {
        let burst = self.burst(u32::try_from(into.len()).unwrap_or(u32::MAX));
        into.iter_mut().zip(burst).map(|(to, address)| *to = address).count()
    }

    /// Returns the number of waiting addresses.
    #[inline]
    pub fn waiting(&mut self) -> u32 {
        self.ring.waiting(u32::MAX)
    }
}

/// Items common to all halves.
macro_rules! half {
    ($half:ty) => {
        impl $half {
            /// Returns the binding of the queue.
            pub fn bound(&self) -> &Bound {
                &self.socket.bound
            }
        }

        /// File descriptor for poll and epoll: readable when frames wait, writable when the transmit ring has room. A
        /// duplicate keeps the queue bound.
        impl AsFd for $half {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.socket.as_fd()
            }
        }
    };
}

half!(Fill);
half!(Rx);
half!(Tx);
half!(Completion);

// Each half moves to the thread that uses it.
const _: fn() = || {
    fn sent<T: Send + 'static>() {}
    sent::<(Fill, Rx, Tx, Completion)>();
};
