//! The four halves of a queue. Each owns its side of one ring, and shares the socket with the others.
//!
//! Their fields are dropped in order: the ring is unmapped before the socket is let go, and whoever lets it go last
//! closes it, with nothing left that would keep the queue taken.

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
use crate::ring::{Burst, Consumer, Descriptor, Producer};

/// Lends chunks of the memory, in which the kernel puts received frames.
#[derive(Debug)]
pub struct Fill {
    pub(super) ring: Producer<u64>,
    pub(super) socket: Arc<Socket>,
}

impl Fill {
    /// Lends as many of the chunks at these addresses as there is room for, from the first on; returns how many.
    ///
    /// Each address must be one that [`Umem::accepts`], else it is lost. What is lent comes back with a frame, or when
    /// the queue is released.
    #[inline]
    pub fn push(&mut self, addresses: &[u64]) -> usize {
        let wanted = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        self.push_checked(addresses.iter().copied(), wanted)
    }

    /// As [`Self::push`], from an iterator; give `&mut` of one to keep what finds no room.
    #[inline]
    pub fn push_from(&mut self, addresses: impl IntoIterator<Item = u64>) -> usize {
        self.push_checked(addresses, self.ring.size())
    }

    #[inline]
    fn push_checked(&mut self, addresses: impl IntoIterator<Item = u64>, wanted: u32) -> usize {
        let (umem, zero_copy) = (&self.socket.umem, self.socket.bound.zero_copy);
        let checked = addresses
            .into_iter()
            .inspect(|&address| debug_assert!(umem.accepts(address, zero_copy), "{address:#x} would be lost"));
        self.ring.push(checked, wanted)
    }

    /// Number of chunks that there is room for.
    #[inline]
    pub fn room(&mut self) -> u32 {
        self.ring.room(u32::MAX)
    }

    /// Whether the driver waits to be woken before it looks at new chunks. Ask in each round: an answer may come late.
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }

    /// Wakes the driver, with recvfrom(2).
    pub fn wake(&self) -> io::Result<()> {
        match recv(&*self.socket, &mut [0u8; 0], RecvFlags::DONTWAIT) {
            // It is at work, or will find the entries on its way.
            Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The memory.
    pub fn umem(&self) -> &Arc<Umem> {
        &self.socket.umem
    }
}

/// Receives frames.
#[derive(Debug)]
pub struct Rx {
    pub(super) ring: Consumer<Descriptor>,
    pub(super) socket: Arc<Socket>,
}

impl Rx {
    /// Up to `max` received frames, or parts of frames. Their chunks are the caller's again.
    #[inline]
    pub fn burst(&mut self, max: u32) -> Burst<'_, Descriptor> {
        self.ring.burst(max)
    }

    /// Number of frames, or parts of frames, that wait.
    #[inline]
    pub fn waiting(&mut self) -> u32 {
        self.ring.waiting(u32::MAX)
    }

    /// Sleeps until frames wait, with poll(2), which also wakes the driver if it waits for that; false if none came in
    /// this time.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        let mut fds = [PollFd::new(&*self.socket, PollFlags::IN)];
        // A time beyond what the type holds is for ever.
        let timeout = Timespec::try_from(timeout).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => Ok(fds[0].revents().contains(PollFlags::IN)),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// A view for who counts.
    pub fn monitor(&self) -> Monitor {
        Monitor { socket: Arc::downgrade(&self.socket) }
    }
}

/// What is left to do after a wake-up to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// The kernel has taken all that was pushed, or has stopped at something that it does not send.
    Done,
    /// The kernel has taken what it could: [`Bound::tx_budget`] frames, or what the interface had room for. The rest
    /// needs another wake-up.
    More,
}

/// Sends frames.
#[derive(Debug)]
pub struct Tx {
    pub(super) ring: Producer<Descriptor>,
    pub(super) socket: Arc<Socket>,
}

impl Tx {
    /// Asks for as many of these frames to be sent as there is room for, from the first on; returns how many.
    ///
    /// Each must be one that [`Umem::sends`], else it is counted as invalid and does not come back. It must stay as it is
    /// until its address comes back from [`Completion`]. Received descriptors may be sent as they are. Of a frame in several parts, push all or none: see [`Self::room`].
    #[inline]
    pub fn push(&mut self, frames: &[Descriptor]) -> usize {
        let wanted = u32::try_from(frames.len()).unwrap_or(u32::MAX);
        self.push_encoded(frames.iter().copied(), wanted)
    }

    /// As [`Self::push`], from an iterator; give `&mut` of one to keep what finds no room.
    #[inline]
    pub fn push_from(&mut self, frames: impl IntoIterator<Item = Descriptor>) -> usize {
        self.push_encoded(frames, self.ring.size())
    }

    #[inline]
    fn push_encoded(&mut self, frames: impl IntoIterator<Item = Descriptor>, wanted: u32) -> usize {
        let chunks = self.socket.umem.chunks();
        let encode = |frame: Descriptor| Descriptor { address: chunks.sent_address(frame.address), ..frame };
        self.ring.push(frames.into_iter().map(encode), wanted)
    }

    /// Number of descriptors that there is room for.
    #[inline]
    pub fn room(&mut self) -> u32 {
        self.ring.room(u32::MAX)
    }

    /// Whether the kernel waits to be woken before it sends what was pushed: in copy mode it always does. Ask in each
    /// round: an answer may come late.
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        !self.socket.bound.need_wakeup || self.ring.needs_wakeup()
    }

    /// Has the kernel send, with sendto(2); in copy mode the sending happens in this call. Fails for good only if the
    /// interface is down or gone.
    pub fn wake(&self) -> io::Result<Sending> {
        match send(&*self.socket, &[], SendFlags::DONTWAIT) {
            Ok(_) => Ok(Sending::Done),
            // No buffers: the interface's queue or the completion ring is full.
            Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => Ok(Sending::More),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The memory.
    pub fn umem(&self) -> &Arc<Umem> {
        &self.socket.umem
    }
}

/// Says which frames were sent.
#[derive(Debug)]
pub struct Completion {
    pub(super) ring: Consumer<u64>,
    pub(super) socket: Arc<Socket>,
}

impl Completion {
    /// Up to `max` addresses of the first bytes of what the kernel is done with: of each descriptor that was pushed, its
    /// [`Umem::frame_address`]. They are taken as they are looked at.
    ///
    /// Of aligned chunks only the chunk is sure, [`Umem::filled_address`]: some kernels lose the lowest bit.
    #[inline]
    pub fn burst(&mut self, max: u32) -> impl ExactSizeIterator<Item = u64> {
        let chunks = self.socket.umem.chunks();
        self.ring.burst(max).map(move |address| chunks.frame_address(address))
    }

    /// Puts them into a slice; returns how many.
    #[inline]
    pub fn pop(&mut self, into: &mut [u64]) -> usize {
        let burst = self.burst(u32::try_from(into.len()).unwrap_or(u32::MAX));
        into.iter_mut().zip(burst).map(|(to, address)| *to = address).count()
    }

    /// Number of addresses that wait.
    #[inline]
    pub fn waiting(&mut self) -> u32 {
        self.ring.waiting(u32::MAX)
    }
}

/// What all halves have.
macro_rules! half {
    ($half:ty) => {
        impl $half {
            /// What the queue is bound to, and how.
            pub fn bound(&self) -> &Bound {
                &self.socket.bound
            }
        }

        /// For poll and epoll: readable when frames wait, writable when the transmit ring has room. A duplicate keeps
        /// the queue taken.
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

// Each goes to the thread that uses it.
const _: fn() = || {
    fn sent<T: Send + 'static>() {}
    sent::<(Fill, Rx, Tx, Completion)>();
};
