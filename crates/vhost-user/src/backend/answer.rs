//! Answers to messages that the library does not read.

use super::device::{Device, Refused};
use super::inbox::{HEADER, Header};
use std::os::unix::net::UnixStream;
use vhost::vhost_user::message::VhostUserHeaderFlag;
use vhost::vhost_user::{Error, VhostUserProtocolFeatures};

/// Tells the frontend whether its message was obeyed, if it wants to know.
pub(super) fn answer(stream: &UnixStream, header: Header, device: &Device, is_obeyed: bool) -> Result<(), Error> {
    let acks = device.protocol_features & VhostUserProtocolFeatures::REPLY_ACK.bits() != 0;
    if acks && header.flags & VhostUserHeaderFlag::NEED_REPLY.bits() != 0 {
        reply(stream, header, u64::from(!is_obeyed))?;
    }
    Ok(())
}

/// Answers a message by a number.
pub(super) fn reply(stream: &UnixStream, header: Header, number: u64) -> Result<(), Error> {
    const VERSION: u32 = 1;
    let mut message = Vec::with_capacity(HEADER + size_of::<u64>());
    for word in [header.request, VERSION | VhostUserHeaderFlag::REPLY.bits(), size_of::<u64>() as u32] {
        message.extend_from_slice(&word.to_ne_bytes());
    }
    message.extend_from_slice(&number.to_ne_bytes());
    // Rust's runtime ignores SIGPIPE, but the host process may not.
    let sent = rustix::net::send(stream, &message, rustix::net::SendFlags::NOSIGNAL);
    sent.map_err(|e| Refused::Answer(e.into()))?;
    Ok(())
}
