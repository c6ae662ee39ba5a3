//! The kernel's side of an interface: a packet socket.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::interface;

/// Sends frames from an interface, and receives those that the kernel gets from it.
pub struct PacketSocket {
    socket: OwnedFd,
}

impl PacketSocket {
    pub fn open(name: &str) -> Self {
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol.into()) };
        assert!(fd >= 0, "{} (this test needs to run as root)", io::Error::last_os_error());
        // SAFETY: a new file descriptor.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: integers only.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = interface(name).index as i32;
        // SAFETY: the address lives until the call returns.
        let bound = unsafe { libc::bind(fd, (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as u32) };
        assert_eq!(bound, 0, "{}", io::Error::last_os_error());
        let on: libc::c_int = 1;
        // SAFETY: the value lives until the call returns.
        let set = unsafe {
            let option = libc::PACKET_IGNORE_OUTGOING;
            libc::setsockopt(fd, libc::SOL_PACKET, option, (&raw const on).cast(), size_of::<libc::c_int>() as u32)
        };
        assert_eq!(set, 0, "{}", io::Error::last_os_error());
        Self { socket }
    }

    pub fn send(&self, frame: &[u8]) {
        // SAFETY: the frame lives until the call returns.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", io::Error::last_os_error());
    }

    /// Returns the next frame of the tests' EtherType, if there is one.
    pub fn receive(&self) -> Option<Vec<u8>> {
        loop {
            let mut frame = vec![0; 10_000];
            let (fd, flags) = (self.socket.as_raw_fd(), libc::MSG_DONTWAIT);
            // SAFETY: the buffer lives until the call returns.
            let len = unsafe { libc::recv(fd, frame.as_mut_ptr().cast(), frame.len(), flags) };
            frame.truncate(usize::try_from(len).ok()?);
            if frame[12..14] == [0x88, 0xb5] {
                return Some(frame);
            }
        }
    }
}
