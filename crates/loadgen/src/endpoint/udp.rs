//! UDP sockets: messages are payloads, and headers are the kernel's.

use super::addresses::{Addresses, UDP_PORT};
use super::contract::{HEADERS, Setup};
use super::socket::{RECEIVE_BYTES, Socket};
use netdev::Link;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use rustix::net::{AddressFamily, SocketAddrV4, SocketFlags, SocketType, bind, connect, socket_with};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A UDP socket that is connected to its peer.
pub struct UdpSocket(OwnedFd);

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Socket for UdpSocket {
    const KERNELS: usize = HEADERS;

    fn open(link: &Link, setup: &Setup) -> Result<UdpSocket, String> {
        let Addresses { own, peer } = setup.addresses;
        let [own, peer] = [own, peer].map(|number| SocketAddrV4::new(Addresses::ip(number), UDP_PORT));
        let failed = |action: String| move |error| format!("can't {action}: {error}");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)
            .map_err(failed("open a UDP socket".to_owned()))?;
        set_socket_recv_buffer_size_force(&fd, RECEIVE_BYTES)
            .or_else(|_| set_socket_recv_buffer_size(&fd, RECEIVE_BYTES))
            .map_err(failed("size the receive buffer".to_owned()))?;
        let name = &link.name;
        bind(&fd, &own).map_err(failed(format!("bind to {own}; `ip address add {}/24 dev {name}`", own.ip())))?;
        connect(&fd, &peer).map_err(failed(format!("connect to {peer}; see `ip route get {}`", peer.ip())))?;
        Ok(UdpSocket(fd))
    }

    #[inline(always)]
    fn begin<'m>(&self, message: &'m mut [u8]) -> &'m mut [u8] {
        message
    }

    #[inline(always)]
    fn payload<'m>(&self, message: &'m [u8]) -> Option<(&'m [u8], bool)> {
        Some((message, true))
    }
}
