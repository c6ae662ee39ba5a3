//! What a port needs to know about a network interface: queues, MTU, driver. By ioctl, as sysfs shows the interfaces of
//! the namespace that it was mounted in, not of the caller's.

use std::os::fd::{AsRawFd, OwnedFd};
use std::{io, mem};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

use crate::{Error, Result};

/// `SIOCETHTOOL` of linux/sockios.h.
const SIOCETHTOOL: libc::Ioctl = 0x8946;
/// `ETHTOOL_GDRVINFO` of linux/ethtool.h.
const GET_DRIVER: u32 = 0x03;
/// `ETHTOOL_GCHANNELS` of linux/ethtool.h.
const GET_CHANNELS: u32 = 0x3c;

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    /// Versions, bus, and counts of things that ethtool can show.
    rest: [u8; 32 * 4 + 12 + 5 * 4],
}

const _: () = assert!(size_of::<Channels>() == 36 && size_of::<DriverInfo>() == 196);

/// A network interface in the network namespace where it was opened.
#[derive(Debug)]
pub struct Interface {
    /// Any socket serves for the ioctls; it also holds on to the namespace.
    socket: OwnedFd,
    name: String,
    index: u32,
}

impl Interface {
    /// Looks the interface up.
    pub fn open(name: &str) -> Result<Self> {
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map_err(Error::system(name, "open a control socket", "check the limit on open files"))?;
        match netdevice::name_to_index(&socket, name) {
            Ok(index) => Ok(Self { socket, name: name.to_owned(), index }),
            // A name that is too long is nobody's.
            Err(Errno::NODEV | Errno::NXIO | Errno::NAMETOOLONG) => {
                Err(Error::NoInterface { interface: name.to_owned() })
            }
            Err(errno) => Err(Error::system(name, "read its index", "check the name")(errno)),
        }
    }

    /// The name that it was opened by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's index.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The MTU: the largest frame without its Ethernet header and VLAN tag.
    pub fn mtu(&self) -> Result<usize> {
        let mut request = self.request();
        self.ioctl(libc::SIOCGIFMTU, &mut request).map_err(Error::system(&self.name, "read its MTU", GONE))?;
        // SAFETY: SIOCGIFMTU has filled this member, and every bit pattern is an i32.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        Ok(usize::try_from(mtu).unwrap_or(0))
    }

    /// Name of the driver, if it tells.
    pub fn driver(&self) -> Option<String> {
        let mut info = DriverInfo { command: GET_DRIVER, driver: [0; 32], rest: [0; _] };
        self.ethtool((&raw mut info).cast()).ok()?;
        let name = info.driver.split(|&byte| byte == 0).next()?;
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    }

    /// Number of receive queues in use: the sockets' queues count from 0 to one below. A driver that does not tell has
    /// one.
    pub fn rx_queues(&self) -> Result<u32> {
        let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
        match self.ethtool((&raw mut channels).cast()) {
            Ok(()) => Ok((channels.rx + channels.combined).max(1)),
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(self.sysfs_queues().unwrap_or(1)),
            Err(error) => Err(Error::system(&self.name, "read its number of queues", GONE)(error)),
        }
    }

    /// The receive queues in sysfs, unless it shows an interface of another namespace.
    fn sysfs_queues(&self) -> Option<u32> {
        let directory = format!("/sys/class/net/{}", self.name);
        let index = std::fs::read_to_string(format!("{directory}/ifindex")).ok()?;
        if index.trim().parse() != Ok(self.index) {
            return None;
        }
        let queues = std::fs::read_dir(format!("{directory}/queues")).ok()?;
        let rx = queues.flatten().filter(|queue| queue.file_name().as_encoded_bytes().starts_with(b"rx-")).count();
        u32::try_from(rx).ok().filter(|&rx| rx > 0)
    }

    /// An ethtool request; `data` points to the structure of its command.
    fn ethtool(&self, data: *mut libc::c_char) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_data = data;
        self.ioctl(SIOCETHTOOL, &mut request)
    }

    fn request(&self) -> libc::ifreq {
        // SAFETY: ifreq is integers, arrays of them and (in its union) a pointer: all zero is a valid value.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        // One byte less than the field, so that the name stays terminated.
        for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(self.name.bytes()) {
            *to = from.cast_signed();
        }
        request
    }

    fn ioctl(&self, code: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: every code used in this file takes a pointer to an ifreq, which lives until the call returns, as does
        // the structure that it may point to: it is a local of the caller, of the size that its command asks for.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), code, std::ptr::from_mut(request)) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

const GONE: &str = "check that the interface still exists (`ip link`)";

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn loopback() {
        let lo = Interface::open("lo").unwrap();
        assert_eq!((lo.name(), lo.index()), ("lo", 1));
        assert!(lo.mtu().unwrap() >= 1500);
        assert_eq!(lo.rx_queues().unwrap(), 1);
    }

    #[test]
    fn missing_interfaces_are_named() {
        for name in ["no-such-netdev", "a-name-that-is-much-too-long", ""] {
            let error = Interface::open(name).unwrap_err();
            assert!(matches!(&error, Error::NoInterface { interface } if interface == name), "{error}");
        }
    }
}
