//! An established connection.

use super::error::FrontendError;
use super::guard::Guard;
use super::{FrontendOptions, QueuePair, negotiate};
use crate::socket::{Listener, SocketError, connect};
use crate::{MAX_QUEUE_PAIRS, Mode, wait};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use virtqueue::Negotiated;
use virtqueue::memory::Arena;

/// One connection to a device, which uses the queues as long as it lasts. Dropping it closes it.
///
/// A device takes a moment to notice. Memory that it may still write to is better not used for anything else: give the
/// next link an arena of its own.
#[derive(Debug)]
pub struct Link {
    stream: UnixStream,
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
        let (negotiated, pairs) = guard.watch(&stream, || negotiate::negotiate(&stream, options, arena))?;
        Ok((Link { stream, negotiated }, pairs))
    }

    /// What both sides agreed on.
    pub fn negotiated(&self) -> Negotiated {
        self.negotiated
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
            let listener = Listener::bind(path)?;
            guard.retry(|| Ok(listener.accept().map_err(failed("accept a connection on"))?))
        }
    }
}
