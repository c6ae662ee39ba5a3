//! Waiting until a whole message has arrived, so that reading it never blocks.
//!
//! The library reads a header, then a body, and treats a body that has not arrived yet as an error. Peeking first lets
//! a frontend send the two separately, and lets a service stop in the middle of a message.

use super::control::Control;
use crate::wait;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::fmt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use vhost::vhost_user::message::{FrontendReq, MAX_MSG_SIZE};

/// Longest wait for the rest of a message.
const STALL: Duration = Duration::from_secs(5);

/// Length of the header of every message: request, flags, size.
pub(super) const HEADER: usize = 12;

/// The header of the next message, as peeked. Only a hint: the reader of the message checks it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) request: u32,
    pub(super) flags: u32,
    pub(super) size: u32,
}

impl Header {
    pub(super) fn parse(bytes: [u8; HEADER]) -> Header {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Header { request: word(0), flags: word(4), size: word(8) }
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match FrontendReq::try_from(self.request) {
            Ok(request) => write!(f, "{request:?}"),
            Err(()) => write!(f, "unknown message {}", self.request),
        }
    }
}

/// Reason why there is no next message.
#[derive(Debug, thiserror::Error)]
pub(super) enum InboxError {
    #[error("disconnected by this side")]
    Dropped,
    #[error("the frontend closed the connection")]
    Closed,
    #[error("the frontend closed the connection in the middle of a message")]
    Truncated,
    #[error("the frontend sent half a message and then nothing for {} s", STALL.as_secs())]
    Stalled,
    #[error("the frontend sent a message header in pieces, with descriptors attached")]
    Scattered,
    #[error("cannot read from the connection: {0}")]
    Failed(Errno),
}

/// Waits for the next message and returns its header; the whole message can then be read.
pub(super) fn next(stream: &UnixStream, control: &Control) -> Result<Header, InboxError> {
    let mut first_seen: Option<Instant> = None;
    let mut pause = Duration::from_millis(1);
    loop {
        if control.is_dropped() {
            return Err(InboxError::Dropped);
        }
        // Check this first: after a hangup no more data will arrive.
        let is_last = wait::hung_up(stream);
        let mut bytes = [0; HEADER];
        match recv(stream, &mut bytes, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Err(InboxError::Closed),
            Ok((_, seen)) => {
                let there = rustix::io::ioctl_fionread(stream).map_err(InboxError::Failed)?;
                if seen == HEADER {
                    let header = Header::parse(bytes);
                    // The library refuses messages that are too long.
                    if header.size as usize > MAX_MSG_SIZE || there >= HEADER as u64 + u64::from(header.size) {
                        return Ok(header);
                    }
                } else if there >= HEADER as u64 {
                    return Err(InboxError::Scattered);
                }
                if is_last {
                    return Err(InboxError::Truncated);
                }
                if first_seen.get_or_insert_with(Instant::now).elapsed() > STALL {
                    return Err(InboxError::Stalled);
                }
                // The socket stays readable meanwhile, so poll would return at once.
                control.sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            Err(Errno::AGAIN) => control.wait_for(stream),
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Err(InboxError::Closed),
            Err(e) => return Err(InboxError::Failed(e)),
        }
    }
}
