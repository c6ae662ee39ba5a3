//! Packet sockets: creation, options and binding, for both directions.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::{io, mem};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::ring_memory::RingMemory;
use crate::error::{Error, Result};
use crate::link::Link;

/// `ETH_P_ALL` in network byte order.
pub(super) const EVERY_PROTOCOL: u16 = (libc::ETH_P_ALL as u16).to_be();
/// Bound to no protocol, a packet socket receives nothing.
pub(super) const NO_PROTOCOL: u16 = 0;

const MEMORY: &str = "make the ring smaller or free memory";
const OPTION: &str = "check that the kernel is 4.20 or newer";

/// A raw packet socket being set up for an interface.
pub(super) struct Socket<'a> {
    fd: OwnedFd,
    link: &'a Link,
}

impl<'a> Socket<'a> {
    /// Opens a non-blocking socket that receives nothing until it is bound.
    pub(super) fn open(link: &'a Link) -> Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None).map_err(Error::refused(
            &link.name,
            "open a packet socket",
            "CAP_NET_RAW",
            "check the limit on open files",
        ))?;
        Ok(Self { fd, link })
    }

    /// Sets an option of level `SOL_PACKET`.
    pub(super) fn set<T: Copy>(&self, option: libc::c_int, value: T, action: &'static str) -> Result<()> {
        self.set_at(libc::SOL_PACKET, option, value).map_err(Error::system(&self.link.name, action, OPTION))
    }

    /// Requests a ring in format `version` and maps its `bytes` bytes.
    pub(super) fn map_ring<T: Copy>(
        &self,
        version: libc::tpacket_versions,
        option: libc::c_int,
        request: T,
        bytes: usize,
    ) -> Result<RingMemory> {
        self.set(libc::PACKET_VERSION, version as libc::c_int, "choose the ring format")?;
        let name = &self.link.name;
        self.set_at(libc::SOL_PACKET, option, request).map_err(Error::system(name, "set up a packet ring", MEMORY))?;
        RingMemory::new(self.fd.as_fd(), bytes).map_err(Error::system(name, "map a packet ring", MEMORY))
    }

    /// Makes the interface receive frames for every address while this socket exists.
    pub(super) fn set_promiscuous(&self) -> Result<()> {
        let membership = libc::packet_mreq {
            mr_ifindex: self.link.index.cast_signed(),
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::PACKET_ADD_MEMBERSHIP, membership, "make it promiscuous")
    }

    /// Discards all arriving frames until [`Self::receive_again`].
    pub(super) fn receive_nothing(&self) -> Result<()> {
        // One instruction of classic BPF: return 0, keep 0 bytes.
        let mut drop = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
        let program = libc::sock_fprog { len: 1, filter: &raw mut drop };
        self.set_at(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program).map_err(Error::system(
            &self.link.name,
            "attach a filter",
            OPTION,
        ))
    }

    /// Ends [`Self::receive_nothing`].
    pub(super) fn receive_again(&self) -> Result<()> {
        self.set_at(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0).map_err(Error::system(
            &self.link.name,
            "detach a filter",
            OPTION,
        ))
    }

    /// Joins the fanout group `id`, or creates one with a free id; the bound socket then gets the flows that hash to
    /// it. Returns the id.
    pub(super) fn join_fanout(&self, id: Option<u16>) -> Result<u16> {
        // For members of a group, the group's flag counts, not the socket's PACKET_IGNORE_OUTGOING.
        let mut kind = libc::PACKET_FANOUT_HASH | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        if id.is_none() {
            kind |= libc::PACKET_FANOUT_FLAG_UNIQUEID;
        }
        let help = "check that the interface is up and has not been removed";
        let argument = kind << 16 | u32::from(id.unwrap_or(0));
        self.set_at(libc::SOL_PACKET, libc::PACKET_FANOUT, argument).map_err(Error::system(
            &self.link.name,
            "join the fanout group of its queues",
            help,
        ))?;
        let joined: u32 = get(self.fd.as_fd(), libc::SOL_PACKET, libc::PACKET_FANOUT).map_err(Error::system(
            &self.link.name,
            "read the fanout group of its queues",
            help,
        ))?;
        Ok(joined as u16)
    }

    /// Allows `bytes` bytes of frames in flight; without CAP_NET_ADMIN, at most the system's limit.
    pub(super) fn set_send_buffer(&self, bytes: usize) -> Result<()> {
        use rustix::net::sockopt::{set_socket_send_buffer_size, set_socket_send_buffer_size_force};
        // The kernel doubles the value and keeps it in an i32.
        let bytes = bytes.min(i32::MAX as usize / 2);
        set_socket_send_buffer_size_force(&self.fd, bytes)
            .or_else(|_| set_socket_send_buffer_size(&self.fd, bytes))
            .map_err(Error::system(&self.link.name, "size the send buffer", MEMORY))
    }

    /// Lets `bytes` bytes of frames wait; without CAP_NET_ADMIN, at most the system's limit.
    pub(super) fn set_receive_buffer(&self, bytes: usize) -> Result<()> {
        use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
        // As above.
        let bytes = bytes.min(i32::MAX as usize / 2);
        set_socket_recv_buffer_size_force(&self.fd, bytes)
            .or_else(|_| set_socket_recv_buffer_size(&self.fd, bytes))
            .map_err(Error::system(&self.link.name, "size the receive buffer", MEMORY))
    }

    /// Binds the socket, which then receives frames of `protocol` (network byte order).
    pub(super) fn bind(&self, protocol: u16) -> Result<()> {
        // SAFETY: sockaddr_ll is integers and an array of them: all zero is a valid value.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_protocol = protocol;
        address.sll_ifindex = self.link.index.cast_signed();
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address lives until the call returns and has the given length.
        let result = unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), length) };
        if result < 0 {
            let help = "check that the interface has not been removed";
            return Err(Error::system(&self.link.name, "bind a packet socket to it", help)(io::Error::last_os_error()));
        }
        Ok(())
    }

    pub(super) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    fn set_at<T: Copy>(&self, level: libc::c_int, option: libc::c_int, value: T) -> io::Result<()> {
        let length = size_of::<T>() as libc::socklen_t;
        // SAFETY: the value lives until the call returns and has the given length. If it holds a pointer (the filter
        // program of `receive_nothing`), the pointer's target lives as long.
        let result = unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, option, (&raw const value).cast(), length) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// A type for which any bytes are a valid value.
///
/// # Safety
/// Every bit pattern must be a valid value.
pub(super) unsafe trait Plain: Copy + Default {}

// SAFETY: an integer.
unsafe impl Plain for u32 {}

// SAFETY: an array of integers.
unsafe impl Plain for [u32; 2] {}

pub(super) fn get<T: Plain>(socket: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int) -> io::Result<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the value, and any bytes are a valid one (`Plain`).
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
