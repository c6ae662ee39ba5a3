//! Tap devices: network interfaces of the host whose other end is a file descriptor (kernel
//! Documentation/networking/tuntap.rst).
//!
//! Frames carry no packet information and no virtio-net header, so the host's stack hands over whole frames with
//! complete checksums and in-band VLAN tags, and expects the same.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};

use crate::error::{Error, Result};
use crate::ifreq::request;
use crate::link::check_name;
use crate::segment::RawSegment;

/// `MAX_TAP_QUEUES` of the kernel.
const MAX_QUEUES: usize = 256;

/// A tap device, which exists while any of its queues does (unless someone else made it persistent).
#[derive(Debug)]
pub enum Tap {}

impl Tap {
    /// Creates the tap device, or attaches to an existing persistent one, with `queues` queues.
    ///
    /// The kernel replaces a `%d` in the name by the first free number; [`TapQueue::name`] returns the result. The
    /// interface starts down: see [`Links::bring_up`](crate::Links::bring_up). With more than one queue, the host's
    /// stack spreads its flows over them by hash.
    pub fn open(name_template: &str, queues: usize) -> Result<Vec<TapQueue>> {
        check_name(name_template)?;
        if !(1..=MAX_QUEUES).contains(&queues) {
            return Err(Error::Config {
                interface: name_template.to_owned(),
                problem: format!("{queues} queues are not possible; a tap device has 1 to {MAX_QUEUES}"),
            });
        }
        let mut name = name_template.to_owned();
        (0..queues)
            .map(|_| {
                let queue = TapQueue::open(&name, queues > 1)?;
                // From the second queue on, use the name that the kernel made of the template.
                name.clone_from(&queue.name);
                Ok(queue)
            })
            .collect()
    }
}

/// The outcome of a frame written to a tap device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a frame that was not sent is a drop to count"]
pub enum TapWrite {
    /// The host's stack accepted the frame.
    Sent,
    /// The kernel has no room or no memory for it now.
    Busy,
    /// The interface is down.
    Down,
    /// The kernel refuses the frame: it is shorter than an Ethernet header, or has more than 1024 segments.
    Malformed,
    /// The memory of the segments no longer exists, e.g. because its owner truncated the file behind it.
    Fault,
}

/// One queue of a tap device. All calls are non-blocking.
#[derive(Debug)]
pub struct TapQueue {
    fd: OwnedFd,
    name: String,
}

impl TapQueue {
    fn open(name: &str, multi_queue: bool) -> Result<Self> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = open("/dev/net/tun", flags, Mode::empty()).map_err(Error::system(
            name,
            "open /dev/net/tun",
            "load the kernel's tun module and allow access to the device node",
        ))?;
        let mut request = request(name);
        let queue_flag = if multi_queue { libc::IFF_MULTI_QUEUE } else { 0 };
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | queue_flag) as i16;
        // SAFETY: TUNSETIFF takes a pointer to an ifreq, which lives until the call returns.
        if unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } < 0 {
            return Err(Error::refused(
                name,
                "create or attach to the tap device",
                "CAP_NET_ADMIN",
                "check for another user of the name, and that an existing device is a tap with the same choice of \
                 multi_queue",
            )(io::Error::last_os_error()));
        }
        let name = request.ifr_name.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
        // The kernel only replaces "%d" by digits, so the name is still UTF-8.
        let name = String::from_utf8(name).expect("interface name is UTF-8");
        Ok(Self { fd, name })
    }

    /// Returns the interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the next frame that the host sends through the interface; `None` if there is none.
    ///
    /// The buffer should hold MTU + 18 bytes (header and VLAN tag): the kernel silently truncates a longer frame.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.fd, buffer) {
            Ok(length) => Ok(Some(length)),
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes one frame, gathered from slices. An error means that the device is gone.
    pub fn write_vectored(&self, segments: &[IoSlice<'_>]) -> io::Result<TapWrite> {
        outcome(rustix::io::writev(&self.fd, segments).map(drop).map_err(Into::into))
    }

    /// Writes one frame, gathered from raw memory. An error means that the device is gone.
    ///
    /// Another process may write to that memory meanwhile: the kernel then reads a mixture of old and new bytes, each
    /// byte once. Memory that has lost its backing is [`TapWrite::Fault`].
    ///
    /// # Safety
    /// Until the call returns, the address range of every segment must stay reserved for memory that the caller may
    /// read: it must not be unmapped, or reused for something else.
    pub unsafe fn write_raw(&self, segments: &[RawSegment]) -> io::Result<TapWrite> {
        let Ok(count) = libc::c_int::try_from(segments.len()) else {
            return Ok(TapWrite::Malformed);
        };
        // SAFETY: RawSegment is repr(transparent) over iovec, so this is an array of `count` of them; the caller
        // vouches for what they describe.
        let written = unsafe { libc::writev(self.fd.as_raw_fd(), RawSegment::as_iovecs(segments), count) };
        outcome(if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) })
    }
}

impl AsFd for TapQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Distinguishes errors of one frame from errors of the device (errors of `tun_get_user`).
fn outcome(result: io::Result<()>) -> io::Result<TapWrite> {
    let Err(error) = result else { return Ok(TapWrite::Sent) };
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => Ok(TapWrite::Busy),
        Some(libc::EIO) => Ok(TapWrite::Down),
        Some(libc::EINVAL) => Ok(TapWrite::Malformed),
        Some(libc::EFAULT) => Ok(TapWrite::Fault),
        _ => Err(error),
    }
}
