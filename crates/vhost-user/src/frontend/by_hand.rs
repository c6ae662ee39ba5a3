//! The two messages that the library cannot express.

use rustix::io::Errno;
use rustix::net::SendFlags;
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::net::UnixStream;
use vhost::vhost_user::message::{FrontendReq, VhostUserHeaderFlag};

/// Flags of a request: the protocol version, without asking for an acknowledgement.
const VERSION: u32 = 1;

/// SET_VRING_BASE: the library's base has 16 bits, that of a packed ring 32.
pub(super) fn set_vring_base(stream: &UnixStream, index: usize, base: u32) -> Result<()> {
    send(stream, &[FrontendReq::SET_VRING_BASE.into(), VERSION, 8, index as u32, base])
}

/// GET_QUEUE_NUM: a network device answers in queue pairs, but the library reads it as queues and then refuses to send
/// anything about the second half of them.
pub(super) fn get_queue_pairs(mut stream: &UnixStream) -> Result<u64> {
    let request = FrontendReq::GET_QUEUE_NUM.into();
    send(stream, &[request, VERSION, 0])?;
    let (mut header, mut body) = ([0; 12], [0; 8]);
    stream.read_exact(&mut header)?;
    stream.read_exact(&mut body)?;
    let expected = [request, VERSION | VhostUserHeaderFlag::REPLY.bits(), 8].map(u32::to_ne_bytes).concat();
    if header[..] != expected {
        return Err(Error::new(ErrorKind::InvalidData, "the reply is none to GET_QUEUE_NUM"));
    }
    Ok(u64::from_ne_bytes(body))
}

fn send(stream: &UnixStream, words: &[u32]) -> Result<()> {
    let message: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    match rustix::io::retry_on_intr(|| rustix::net::send(stream, &message, SendFlags::NOSIGNAL)) {
        Ok(sent) if sent == message.len() => Ok(()),
        Ok(_) => Err(Errno::PIPE.into()),
        Err(e) => Err(e.into()),
    }
}
