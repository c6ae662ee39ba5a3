//! Packet sockets: messages are whole frames.

use super::contract::{HEADERS, Setup};
use super::headers::Headers;
use super::socket::{RECEIVE_BYTES, Socket};
use netdev::{Link, packet_socket};
use packet::ethertype;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A packet socket.
pub struct RawSocket {
    fd: OwnedFd,
    headers: Headers,
}

impl AsFd for RawSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Socket for RawSocket {
    const KERNELS: usize = 0;

    fn open(link: &Link, setup: &Setup) -> Result<RawSocket, String> {
        let fd = packet_socket(link, ethertype::IPV4, RECEIVE_BYTES).map_err(|error| error.to_string())?;
        Ok(RawSocket { fd, headers: Headers::new(setup.addresses, setup.check_headers) })
    }

    #[inline(always)]
    fn begin<'m>(&self, message: &'m mut [u8]) -> &'m mut [u8] {
        self.headers.write(message);
        &mut message[HEADERS..]
    }

    #[inline(always)]
    fn payload<'m>(&self, message: &'m [u8]) -> Option<(&'m [u8], bool)> {
        self.headers.payload(message)
    }
}
