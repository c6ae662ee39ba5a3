//! An established connection.

use super::error::FrontendError;
use super::error::refused;
use super::guard::Guard;
use super::negotiate;
use super::{FrontendOptions, QueueEnd, QueuePair};
use crate::socket::{Listener, SocketError, connect};
use crate::{Access, MAX_QUEUE_PAIRS, Mode, wait};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use vhost::VhostBackend;
use vhost::vhost_user::Frontend;
use virtqueue::driver::Queue;
use virtqueue::memory::{Arena, Region};
use virtqueue::{Negotiated, QueueConfig};

/// Longest time that a running device may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// One connection to a device, which uses the queues for as long as the connection lasts. Dropping it closes it.
///
/// A device takes a moment to notice the close and may still write to the shared memory: give the next link a new
/// arena.
pub struct Link {
    stream: UnixStream,
    device: Frontend,
    negotiated: Negotiated,
}

impl Link {
    /// Connects, or waits for a device to connect; negotiates, shares `arena`, lays out the queues in it and starts
    /// them. Gives up after `timeout`, if there is one, and soon after `stop` is set.
    pub fn establish(
        options: &FrontendOptions,
        arena: &mut Arena,
        timeout: Option<Duration>,
        stop: &AtomicBool,
    ) -> Result<(Link, Vec<QueuePair>), FrontendError> {
        let listener = match options.mode {
            Mode::Server => Some(Listener::bind(&options.socket, &Access::default())?),
            Mode::Client => None,
        };
        Link::establish_at(listener.as_ref(), options, arena, timeout, stop)
    }

    /// Does the same at a `listener`, if this side listens.
    pub fn establish_at(
        listener: Option<&Listener>,
        options: &FrontendOptions,
        arena: &mut Arena,
        timeout: Option<Duration>,
        stop: &AtomicBool,
    ) -> Result<(Link, Vec<QueuePair>), FrontendError> {
        if !(1..=MAX_QUEUE_PAIRS).contains(&options.queue_pairs) {
            return Err(FrontendError::QueuePairs(options.queue_pairs));
        }
        let guard = Guard::new(timeout, stop);
        let stream = open(listener, options, &guard)?;
        let (device, negotiated, pairs) = guard.watch(&stream, || negotiate::negotiate(&stream, options, arena))?;
        Ok((Link { stream, device, negotiated }, pairs))
    }

    /// Returns the negotiated features.
    pub fn negotiated(&self) -> Negotiated {
        self.negotiated
    }

    /// Shares `others` with the device in addition to `arena`, which must be the arena that the link was established
    /// with. From now on descriptors may use guest addresses in `others`.
    pub fn share(&self, arena: &Arena, others: &[Region]) -> Result<(), FrontendError> {
        self.timely(|| negotiate::share(&self.device, arena, others))
    }

    /// Stops a queue, counted from 0 in the order receive, transmit, receive, ...: when this returns, the device no
    /// longer uses any of its buffers. Buffers that it has used can still be taken.
    pub fn stop(&self, index: usize) -> Result<(), FrontendError> {
        self.timely(|| self.device.get_vring_base(index).map(|_| ()).map_err(refused("GET_VRING_BASE")))
    }

    /// Starts a stopped queue afresh at its place in the arena.
    pub fn start(&self, arena: &Arena, index: usize, config: &QueueConfig) -> Result<QueueEnd, FrontendError> {
        let queue = Queue::new(arena, config).map_err(|source| FrontendError::Setup { index, source })?;
        self.timely(|| negotiate::start(&self.device, &self.stream, arena, index, config, queue))
    }

    /// Runs a request within [`PATIENCE`].
    fn timely<T>(&self, ask: impl FnOnce() -> Result<T, FrontendError>) -> Result<T, FrontendError> {
        Guard::new(Some(PATIENCE), &AtomicBool::new(false)).watch(&self.stream, ask)
    }

    /// Reports whether the device is still connected. Takes one or two system calls.
    pub fn is_connected(&self) -> bool {
        // A device sends nothing unasked, so this only peeks, to see the end of the stream.
        !wait::hung_up(&self.stream)
            && match recv(&self.stream, &mut [0u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
                Ok((_, seen)) => seen > 0,
                Err(e) => matches!(e, Errno::AGAIN | Errno::INTR),
            }
    }
}

fn open(
    listener: Option<&Listener>,
    options: &FrontendOptions,
    guard: &Guard<'_>,
) -> Result<UnixStream, FrontendError> {
    let path = &options.socket;
    let failed = |action| move |source| SocketError::Failed { action, path: path.clone(), source };
    guard.retry(|| match listener {
        Some(listener) => Ok(listener.accept().map_err(failed("accept a connection on"))?),
        None => match connect(path) {
            Ok(stream) => Ok(Some(stream)),
            Err(e) => match e.kind() {
                io::ErrorKind::NotFound
                | io::ErrorKind::ConnectionRefused
                | io::ErrorKind::WouldBlock
                | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(failed("connect to")(e).into()),
            },
        },
    })
}
