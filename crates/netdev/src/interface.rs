//! Reading and setting what a port needs of a network interface, by the classic ioctls (netdevice(7)).

use std::os::fd::{AsRawFd, OwnedFd};
use std::{io, mem};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::{Error, Result};

const EXISTS: &str = "check that the interface exists in this network namespace (`ip link`)";
const PRIVILEGE: &str = "check the value and that the process has CAP_NET_ADMIN";

/// A network interface, by name, in the network namespace where it was opened.
#[derive(Debug)]
pub struct Interface {
    /// Any socket serves for the ioctls; it also holds on to the namespace.
    socket: OwnedFd,
    name: String,
}

impl Interface {
    /// Names an interface. That it exists is first checked by the first use.
    pub fn open(name: &str) -> Result<Self> {
        check_name(name)?;
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map_err(Error::system(name, "open a control socket", "check the limit on open files"))?;
        Ok(Self { socket, name: name.to_owned() })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's index.
    pub fn index(&self) -> Result<u32> {
        let request = self.ioctl(libc::SIOCGIFINDEX, self.request(), "read its index", EXISTS)?;
        // SAFETY: SIOCGIFINDEX has filled this member, and every bit pattern is an i32.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        Ok(index.cast_unsigned())
    }

    /// The MAC address.
    pub fn mac(&self) -> Result<[u8; 6]> {
        let address = self.hardware_address()?;
        let mut mac = [0; 6];
        for (to, from) in mac.iter_mut().zip(address.sa_data) {
            *to = from.cast_unsigned();
        }
        Ok(mac)
    }

    /// The MTU: the largest frame without its Ethernet header and VLAN tag.
    pub fn mtu(&self) -> Result<usize> {
        let request = self.ioctl(libc::SIOCGIFMTU, self.request(), "read its MTU", EXISTS)?;
        // SAFETY: SIOCGIFMTU has filled this member, and every bit pattern is an i32.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        Ok(usize::try_from(mtu).unwrap_or(0))
    }

    /// Sets the MTU.
    pub fn set_mtu(&self, mtu: usize) -> Result<()> {
        let mut request = self.request();
        // A value beyond an i32 becomes one that every driver refuses.
        request.ifr_ifru.ifru_mtu = i32::try_from(mtu).unwrap_or(i32::MAX);
        self.ioctl(libc::SIOCSIFMTU, request, "set its MTU", PRIVILEGE)?;
        Ok(())
    }

    /// Whether the interface is administratively up.
    pub fn is_up(&self) -> Result<bool> {
        Ok(i32::from(self.flags()?) & libc::IFF_UP != 0)
    }

    /// Brings the interface up.
    pub fn bring_up(&self) -> Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_flags = self.flags()? | libc::IFF_UP as i16;
        self.ioctl(libc::SIOCSIFFLAGS, request, "bring it up", PRIVILEGE)?;
        Ok(())
    }

    /// Refuses interfaces whose frames have no Ethernet header (tun, WireGuard, PPP, ...).
    pub(crate) fn require_ethernet(&self) -> Result<()> {
        match self.hardware_address()?.sa_family {
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Ok(()),
            other => Err(Error::Config {
                interface: self.name.clone(),
                problem: format!(
                    "its frames have no Ethernet header (hardware type {other}); use an Ethernet interface"
                ),
            }),
        }
    }

    fn flags(&self) -> Result<i16> {
        let request = self.ioctl(libc::SIOCGIFFLAGS, self.request(), "read its flags", EXISTS)?;
        // SAFETY: SIOCGIFFLAGS has filled this member, and every bit pattern is an i16.
        Ok(unsafe { request.ifr_ifru.ifru_flags })
    }

    fn hardware_address(&self) -> Result<libc::sockaddr> {
        let request = self.ioctl(libc::SIOCGIFHWADDR, self.request(), "read its MAC address", EXISTS)?;
        // SAFETY: SIOCGIFHWADDR has filled this member, which is plain integers.
        Ok(unsafe { request.ifr_ifru.ifru_hwaddr })
    }

    fn request(&self) -> libc::ifreq {
        request(&self.name)
    }

    fn ioctl(
        &self,
        code: libc::Ioctl,
        mut request: libc::ifreq,
        action: &'static str,
        help: &'static str,
    ) -> Result<libc::ifreq> {
        // SAFETY: every code used in this file takes a pointer to an ifreq, which lives until the call returns.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), code, &raw mut request) };
        if result < 0 {
            return Err(Error::system(&self.name, action, help)(io::Error::last_os_error()));
        }
        Ok(request)
    }
}

/// An ioctl request for the interface `name`, which was checked by [`check_name`].
pub(crate) fn request(name: &str) -> libc::ifreq {
    // SAFETY: ifreq is integers, arrays of them and (in its union) a pointer: all zero is a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // One byte less than the field, so that the name stays terminated.
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request
}

/// Applies the kernel's rules for names (`dev_valid_name`) early, for a better message than EINVAL.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.len() >= libc::IFNAMSIZ {
        "it is longer than 15 bytes"
    } else if name == "." || name == ".." {
        "it is a directory name"
    } else if name.bytes().any(|byte| byte == b'/' || byte == b':' || byte == 0 || byte.is_ascii_whitespace()) {
        "it contains '/', ':', white space or a zero byte"
    } else {
        return Ok(());
    };
    Err(Error::Name { name: name.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["lo", "eth0", "tap%d", "fifteen-bytes-x", "a.5"] {
            check_name(good).unwrap();
        }
        for bad in ["", "sixteen-bytes-xx", ".", "..", "a/b", "a b", "a:1", "a\0b"] {
            check_name(bad).unwrap_err();
        }
    }

    #[test]
    fn loopback() {
        let lo = Interface::open("lo").unwrap();
        assert_eq!(lo.index().unwrap(), 1);
        assert_eq!(lo.mac().unwrap(), [0; 6]);
        assert!(lo.mtu().unwrap() >= 1500);
        lo.require_ethernet().unwrap();
    }

    #[test]
    fn missing_interface_is_named() {
        let error = Interface::open("no-such-netdev").unwrap().mtu().unwrap_err().to_string();
        assert!(error.contains("no-such-netdev") && error.contains("exists"), "{error}");
    }
}
