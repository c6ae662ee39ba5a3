//! Packet sockets without a ring: frames by system calls.

use std::os::fd::OwnedFd;

use super::socket::Socket;
use crate::error::Result;
use crate::link::Link;

/// Opens a non-blocking packet socket on an interface: it receives frames of one EtherType that arrive, for any address, and none
/// that leave. `receive_bytes` may wait in it, as the kernel counts.
pub fn packet_socket(link: &Link, ethertype: u16, receive_bytes: usize) -> Result<OwnedFd> {
    link.require_ethernet()?;
    let socket = Socket::open(link)?;
    socket.set(libc::PACKET_IGNORE_OUTGOING, 1, "leave out the frames it sends")?;
    socket.set_receive_buffer(receive_bytes)?;
    socket.set_promiscuous()?;
    socket.bind(ethertype.to_be())?;
    Ok(socket.into_fd())
}
