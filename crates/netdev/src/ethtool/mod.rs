//! Driver name, speed, queue count, VLAN tags and flow rules of an interface (`SIOCETHTOOL`): netlink has no message for the first and the
//! last, and the others would need another netlink family.

mod rules;
mod tags;

pub use rules::{Rule, steer};
pub use tags::{TagsInFrames, leave_tags};

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::error::{Error, Result};
use crate::ifreq::request;
use crate::link::Link;

/// `SIOCETHTOOL` of linux/sockios.h.
const SIOCETHTOOL: libc::Ioctl = 0x8946;
/// `ETHTOOL_GSET` of linux/ethtool.h.
const GET_SETTINGS: u32 = 0x01;
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
    /// Versions, bus, and counts of statistics, among others.
    rest: [u8; 32 * 4 + 12 + 5 * 4],
}

/// `struct ethtool_cmd`.
#[repr(C)]
#[derive(Default)]
struct Settings {
    command: u32,
    modes: [u32; 2],
    speed: u16,
    kinds: [u8; 6],
    limits: [u32; 2],
    speed_high: u16,
    rest: [u8; 2 + 3 * 4],
}

const _: () = assert!(size_of::<Channels>() == 36 && size_of::<DriverInfo>() == 196 && size_of::<Settings>() == 44);

/// Returns the driver's name, if known.
pub fn driver(link: &Link) -> Option<String> {
    let mut info = DriverInfo { command: GET_DRIVER, driver: [0; 32], rest: [0; _] };
    ethtool(link, (&raw mut info).cast()).ok()?;
    let name = info.driver.split(|&byte| byte == 0).next()?;
    (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
}

/// Returns the speed in megabits per second, if the driver knows it, there is a carrier, and the interface is in this namespace.
pub fn speed(link: &Link) -> Option<u32> {
    if link.is_elsewhere {
        return None;
    }
    let mut settings = Settings { command: GET_SETTINGS, ..Settings::default() };
    ethtool(link, (&raw mut settings).cast()).ok()?;
    let speed = u32::from(settings.speed_high) << 16 | u32::from(settings.speed);
    // SPEED_UNKNOWN of linux/ethtool.h.
    (speed != u32::MAX && speed != 0).then_some(speed)
}

/// Returns the number of receive queues in use, numbered from 0. A driver that reports none has one.
pub fn rx_queues(link: &Link) -> Result<u32> {
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    match ethtool(link, (&raw mut channels).cast()) {
        Ok(()) => Ok((channels.rx + channels.combined).max(1)),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(sysfs_queues(link).unwrap_or(1)),
        Err(error) => {
            let help = "check that the interface still exists (`ip link`)";
            Err(Error::system(&link.name, "read its number of queues", help)(error))
        }
    }
}

/// Counts the receive queues in sysfs. Returns `None` if sysfs shows another interface: it shows those of the namespace
/// that it was mounted in.
fn sysfs_queues(link: &Link) -> Option<u32> {
    let directory = format!("/sys/class/net/{}", link.name);
    let index = std::fs::read_to_string(format!("{directory}/ifindex")).ok()?;
    if index.trim().parse() != Ok(link.index) {
        return None;
    }
    let queues = std::fs::read_dir(format!("{directory}/queues")).ok()?;
    let rx = queues.flatten().filter(|queue| queue.file_name().as_encoded_bytes().starts_with(b"rx-")).count();
    u32::try_from(rx).ok().filter(|&rx| rx > 0)
}

/// Returns a socket for requests to interfaces.
fn any_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// Returns the interface under the name that it has now, if it still exists.
fn under_its_name(link: &Link) -> Option<Link> {
    let mut link = link.clone();
    link.name = rustix::net::netdevice::index_to_name(any_socket().ok()?, link.index).ok()?;
    Some(link)
}

/// Makes an ethtool request; `data` points to the structure of its command, a local of the caller.
fn ethtool(link: &Link, data: *mut libc::c_char) -> io::Result<()> {
    let socket = any_socket()?;
    let mut request = request(&link.name);
    request.ifr_ifru.ifru_data = data;
    // SAFETY: SIOCETHTOOL takes a pointer to an ifreq, which lives until the call returns, as does the structure that it
    // points to, which has the size that its command asks for.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_one_queue() {
        assert_eq!(rx_queues(&Link::named("lo").unwrap()).unwrap(), 1);
    }
}
