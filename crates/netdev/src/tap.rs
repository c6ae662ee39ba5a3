//! Tap devices: network interfaces of the host whose other end is a file descriptor (kernel
//! Documentation/networking/tuntap.rst).
//!
//! Frames carry no packet information, and their VLAN tags in band. Without offloads, the host's stack hands over complete frames, and
//! expects the same. With offloads a virtio header precedes each frame ([`packet::offload::header`]), in both directions.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use packet::offload::{Offloads, header};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, fstat, open};

use crate::error::{Error, Result};
use crate::ifreq::request;
use crate::link::{Link, Links, check_name};
use crate::segment::RawSegment;

/// Requests for the network namespaces that the descriptor was opened in (linux/sockios.h), and that the device is in now
/// (linux/if_tun.h).
const SIOCGSKNS: libc::Ioctl = 0x894c;
const TUNGETDEVNETNS: libc::Ioctl = 0x54e3;

/// `MAX_TAP_QUEUES` of the kernel.
const MAX_QUEUES: usize = 256;

/// A tap device, which exists while any of its queues does (unless someone else made it persistent).
#[derive(Debug)]
pub enum Tap {}

impl Tap {
    /// Creates the tap device, or attaches to an existing persistent one, with `queues` queues. The host may leave these `offloads` to who
    /// reads, as far as the kernel knows them ([`TapQueue::offloads`]).
    ///
    /// The kernel replaces a `%d` in the name by the first free number; [`TapQueue::name`] returns the result. The
    /// interface starts down: see [`Links::bring_up`](crate::Links::bring_up). With more than one queue, the host's
    /// stack spreads its flows over them by hash.
    pub fn open(name_template: &str, queues: usize, offloads: Offloads) -> Result<Vec<TapQueue>> {
        check_name(name_template)?;
        if !(1..=MAX_QUEUES).contains(&queues) {
            return Err(Error::Config {
                interface: name_template.to_owned(),
                problem: format!("{queues} queues are not possible; a tap device has 1 to {MAX_QUEUES}"),
            });
        }
        let mut name = name_template.to_owned();
        let opened = (0..queues).map(|_| {
            let queue = TapQueue::open(&name, queues > 1, offloads)?;
            // From the second queue on, use the name that the kernel made of the template.
            name.clone_from(&queue.name);
            Ok(queue)
        });
        let mut opened: Vec<_> = opened.collect::<Result<_>>()?;
        let known = opened[0].leave(offloads)?;
        opened.iter_mut().for_each(|queue| queue.offloads = known);
        Ok(opened)
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
    offloads: Offloads,
}

impl TapQueue {
    fn open(name: &str, multi_queue: bool, offloads: Offloads) -> Result<Self> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = open("/dev/net/tun", flags, Mode::empty()).map_err(Error::system(
            name,
            "open /dev/net/tun",
            "load the kernel's tun module and allow access to the device node",
        ))?;
        let mut request = request(name);
        let queue_flag = if multi_queue { libc::IFF_MULTI_QUEUE } else { 0 };
        let header_flag = if offloads.is_none() { 0 } else { libc::IFF_VNET_HDR };
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | queue_flag | header_flag) as i16;
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
        let queue = Self { fd, name: name_in(&request), offloads: Offloads::NONE };
        queue.check_header(header_flag)?;
        Ok(queue)
    }

    /// Checks that frames have headers as asked: the kernel keeps to what a device has while others have queues of it.
    fn check_header(&self, wanted: libc::c_int) -> Result<()> {
        const HEADER: &str = "agree on virtio headers of frames";
        const HELP: &str = "check that the kernel's tun module is 2.6.33 or newer";
        let mut request = request("");
        // SAFETY: TUNGETIFF takes a pointer to an ifreq, which lives until the call returns.
        self.ioctl(|fd| unsafe { libc::ioctl(fd, libc::TUNGETIFF, &raw mut request) }, HEADER, HELP)?;
        // SAFETY: the kernel has written the flags.
        let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
        if (flags ^ wanted) & libc::IFF_VNET_HDR != 0 {
            let (has, asked) = if wanted == 0 { ("a", "none") } else { ("no", "one") };
            return Err(Error::Config {
                interface: self.name.clone(),
                problem: format!(
                    "another program has queues of it, whose frames have {has} virtio header, and this one asks for {asked}: \
                     close the other's queues, or choose the same offloads"
                ),
            });
        }
        if wanted != 0 {
            // A device that others made may have the longer one.
            let len: libc::c_int = header::LEN as libc::c_int;
            // SAFETY: TUNSETVNETHDRSZ takes a pointer to an integer, which lives until the call returns.
            self.ioctl(|fd| unsafe { libc::ioctl(fd, libc::TUNSETVNETHDRSZ, &raw const len) }, HEADER, HELP)?;
        }
        Ok(())
    }

    /// Tells the kernel what the host may leave to who reads. Returns what the kernel knows of that.
    ///
    /// Also with nothing: a persistent device keeps what another program told it.
    fn leave(&self, offloads: Offloads) -> Result<Offloads> {
        let flags = [
            (Offloads::CHECKSUM, libc::TUN_F_CSUM),
            (Offloads::TCP4, libc::TUN_F_TSO4),
            (Offloads::TCP6, libc::TUN_F_TSO6),
            (Offloads::ECN, libc::TUN_F_TSO_ECN),
            (Offloads::UDP, libc::TUN_F_USO4 | libc::TUN_F_USO6),
        ];
        let set = |offloads: Offloads| {
            let all = flags.iter().filter(|(kind, _)| offloads.has(*kind)).fold(0, |all, (_, flag)| all | flag);
            // SAFETY: TUNSETOFFLOAD takes a number.
            let set = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(all)) };
            if set < 0 { Err(io::Error::last_os_error()) } else { Ok(offloads) }
        };
        // Kernels before 6.2 refuse those of UDP.
        set(offloads).or_else(|_| set(offloads & !Offloads::UDP)).map_err(Error::system(
            &self.name,
            "set the offloads of the tap device",
            "open it without offloads",
        ))
    }

    fn ioctl(
        &self,
        call: impl FnOnce(libc::c_int) -> libc::c_int,
        action: &'static str,
        help: &'static str,
    ) -> Result<()> {
        if call(self.fd.as_raw_fd()) < 0 {
            return Err(Error::system(&self.name, action, help)(io::Error::last_os_error()));
        }
        Ok(())
    }

    /// Returns the work that the host may leave to who reads, and takes over of what is written. If there is any, a virtio header
    /// precedes each frame.
    pub fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// Returns the name that the interface got when it was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Looks at the interface, which was `last`. The device keeps working when others rename it, or move it into another
    /// network namespace than that of `links`: a container's. It is [`Error::Missing`] only once it no longer exists; after
    /// any other error it may be checked again.
    pub fn look(&self, links: &Links, last: &Link) -> Result<Link> {
        let mut request = request("");
        // SAFETY: TUNGETIFF takes a pointer to an ifreq, which lives until the call returns.
        if unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::TUNGETIFF, &raw mut request) } < 0 {
            return Err(Error::Missing { interface: last.name.clone() });
        }
        let name = name_in(&request);
        let found = links.find(&name)?;
        // The kernel may not tell where it is without rights there, or be too old to.
        let is_here = self.is_here().unwrap_or_else(|_| found.as_ref().is_some_and(|link| link.index == last.index));
        match found {
            Some(link) if is_here => Ok(link),
            None if is_here => {
                let problem = "it was renamed meanwhile, or its name is not UTF-8".to_owned();
                Err(Error::Config { interface: name, problem })
            }
            _ => Ok(last.elsewhere(name, self.is_up())),
        }
    }

    /// Reports whether the device is in the network namespace that it was opened in.
    fn is_here(&self) -> io::Result<bool> {
        let namespace = |request| {
            // SAFETY: these requests take no argument, and return a new descriptor.
            let fd = unsafe { libc::ioctl(self.fd.as_raw_fd(), request) };
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the kernel has just made it for this process.
            let namespace = fstat(unsafe { OwnedFd::from_raw_fd(fd) })?;
            Ok((namespace.st_dev, namespace.st_ino))
        };
        Ok(namespace(SIOCGSKNS)? == namespace(TUNGETDEVNETNS)?)
    }

    /// Reports whether the interface is up: only then can frames be written (`tun_chr_poll`).
    fn is_up(&self) -> bool {
        let mut fds = [PollFd::new(&self.fd, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::OUT)
    }

    /// Reads the next frame that the host sends through the interface, and its length; `None` if there is none.
    ///
    /// The buffer should hold MTU + 18 bytes (header and VLAN tag), or, with segmentation, [`packet::MAX_FRAME`]: the kernel silently
    /// truncates a longer frame.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        Ok(self.read_described(buffer)?.map(|(length, _)| length))
    }

    /// The same with its virtio header, which is zero without offloads.
    pub fn read_described(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, [u8; header::LEN])>> {
        let mut header = [0; header::LEN];
        let read = if self.offloads.is_none() {
            rustix::io::read(&self.fd, buffer)
        } else {
            rustix::io::readv(&self.fd, &mut [IoSliceMut::new(&mut header), IoSliceMut::new(buffer)])
                .map(|length| length.saturating_sub(header::LEN))
        };
        match read {
            Ok(length) => Ok(Some((length, header))),
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes one frame, gathered from slices. With offloads, its virtio header comes first. An error means that the device is gone.
    pub fn write_vectored(&self, segments: &[IoSlice<'_>]) -> io::Result<TapWrite> {
        outcome(rustix::io::writev(&self.fd, segments).map(drop).map_err(Into::into))
    }

    /// Writes one frame, gathered from raw memory. With offloads, its virtio header comes first. An error means that the device is gone.
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

/// Returns the name in the kernel's answer. The kernel replaces "%d" by digits, and others choose names as they like.
fn name_in(answer: &libc::ifreq) -> String {
    let bytes: Vec<u8> = answer.ifr_name.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
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
