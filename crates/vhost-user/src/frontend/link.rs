//! An established connection.

use super::error::FrontendError;
use super::guard::Guard;
use super::negotiate::{self, refused};
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

/// How long a device may take to answer while it runs.
const PATIENCE: Duration = Duration::from_secs(5);

/// One connection to a device, which uses the queues as long as it lasts. Dropping it closes it.
///
/// A device takes a moment to notice. Memory that it may still write to is better not used for anything else: give the
/// next link an arena of its own.
pub struct Link {
    stream: UnixStream,
    device: Frontend,
    negotiated: Negotiated,
}

impl Link {
    /// Connects, or waits for a device that does; negotiates, shares `arena`, lays the queues out in it and starts
    /// them. Gives up after `timeout`, if there is one, and soon after `stop` is set.
    pub fn establish(
        options: &FrontendOptions,
        arena: &mut Arena,
        timeout: Option<Duration>,
        stop: &AtomicBool,
    ) -> Result<(Link, Vec<QueuePair>), FrontendError> {
        if !(1..=MAX_QUEUE_PAIRS).contains(&options.queue_pairs) {
            return Err(FrontendError::QueuePairs(options.queue_pairs));
        }
        let guard = Guard::new(timeout, stop);
        let stream = open(options, &guard)?;
        let (device, negotiated, pairs) = guard.watch(&stream, || negotiate::negotiate(&stream, options, arena))?;
        Ok((Link { stream, device, negotiated }, pairs))
    }

    /// What both sides agreed on.
    pub fn negotiated(&self) -> Negotiated {
        self.negotiated
    }

    /// Lets the device use the memory in `others` besides `arena`, which is the one that the link was established with.
    /// Their guest addresses are what descriptors may name from now on.
    pub fn share(&self, arena: &Arena, others: &[Region]) -> Result<(), FrontendError> {
        self.timely(|| negotiate::share(&self.device, arena, others))
    }

    /// Stops a queue, counted from 0 in the order receive, transmit, receive, ...: when this returns, the device uses
    /// none of its buffers any more. What it has used can still be taken.
    pub fn stop(&self, index: usize) -> Result<(), FrontendError> {
        self.timely(|| self.device.get_vring_base(index).map(|_| ()).map_err(refused("GET_VRING_BASE")))
    }

    /// Starts a stopped queue afresh, where it lies.
    pub fn start(&self, arena: &Arena, index: usize, config: &QueueConfig) -> Result<QueueEnd, FrontendError> {
        let queue = Queue::new(arena, config).map_err(|source| FrontendError::Setup { index, source })?;
        self.timely(|| negotiate::start(&self.device, &self.stream, arena, index, config, queue))
    }

    /// Something that the device has to answer.
    fn timely<T>(&self, ask: impl FnOnce() -> Result<T, FrontendError>) -> Result<T, FrontendError> {
        Guard::new(Some(PATIENCE), &AtomicBool::new(false)).watch(&self.stream, ask)
    }

    /// The device is still there. One system call or two.
    pub fn is_connected(&self) -> bool {
        // A device has nothing to say by itself, so nothing is read; but the end of the stream is seen that way too.
        !wait::hung_up(&self.stream)
            && match recv(&self.stream, &mut [0u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
                Ok((_, seen)) => seen > 0,
                Err(e) => matches!(e, Errno::AGAIN | Errno::INTR),
            }
    }
}

fn open(options: &FrontendOptions, guard: &Guard<'_>) -> Result<UnixStream, FrontendError> {
    let path = &options.socket;
    let failed = |action| move |source| SocketError::Failed { action, path: path.clone(), source };
    match options.mode {
        Mode::Client => guard.retry(|| match connect(path) {
            Ok(stream) => Ok(Some(stream)),
            Err(e) => match e.kind() {
                io::ErrorKind::NotFound
                | io::ErrorKind::ConnectionRefused
                | io::ErrorKind::WouldBlock
                | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(failed("connect to")(e).into()),
            },
        }),
        Mode::Server => {
            let listener = Listener::bind(path, &Access::default())?;
            guard.retry(|| Ok(listener.accept().map_err(failed("accept a connection on"))?))
        }
    }
}
