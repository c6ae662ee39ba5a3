//! Network interfaces over rtnetlink (rtnetlink(7)): their state, settings that a port needs, and notifications of
//! changes.

mod message;
mod monitor;
mod socket;

pub use monitor::{Event, Monitor};

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkExtentMask, LinkFlags, LinkMessage};
use rustix::io::Errno;
use socket::Socket;

use crate::{Error, Result};

/// A snapshot of a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The interface's index; a deleted and recreated interface gets another one.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its MAC address; zeros if it has none.
    pub mac: [u8; 6],
    /// The largest frame without its Ethernet header and VLAN tag.
    pub mtu: usize,
    /// Whether it is administratively up.
    pub is_up: bool,
    /// Whether it is up and has a carrier.
    pub has_carrier: bool,
    /// The hardware type, `ARPHRD_*`.
    hardware: u16,
}

impl Link {
    /// Looks up the interface of this name in the calling thread's network namespace.
    pub fn named(name: &str) -> Result<Self> {
        Links::open()?.get(name)
    }

    /// Returns why no frame passes the interface, if so.
    pub fn trouble(&self) -> Option<String> {
        match (self.is_up, self.has_carrier) {
            (false, _) => Some(format!("interface {} is administratively down", self.name)),
            (true, false) => Some(format!("interface {} has no carrier", self.name)),
            (true, true) => None,
        }
    }

    /// Refuses interfaces whose frames have no Ethernet header (tun, WireGuard, PPP, ...).
    pub(crate) fn require_ethernet(&self) -> Result<()> {
        match self.hardware {
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Ok(()),
            other => Err(Error::Config {
                interface: self.name.clone(),
                problem: format!(
                    "its frames have no Ethernet header (hardware type {other}); use an Ethernet interface"
                ),
            }),
        }
    }
}

/// The interfaces of the network namespace of the thread that opened it, for its whole life.
#[derive(Debug)]
pub struct Links(Socket);

impl Links {
    /// Opens the netlink socket.
    pub fn open() -> Result<Self> {
        Socket::open(0).map(Self).map_err(Error::netlink("open a netlink socket"))
    }

    /// Returns the interface of this name, if there is one.
    pub fn find(&self, name: &str) -> Result<Option<Link>> {
        check_name(name)?;
        let mut wanted = LinkMessage::default();
        wanted.attributes.push(LinkAttribute::IfName(name.to_owned()));
        wanted.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        match self.0.ask(RouteNetlinkMessage::GetLink(wanted)) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => Ok(None),
            Err(error) => Err(Error::refused(name, "look it up", "CAP_NET_ADMIN", "see `ip link`")(error)),
        }
    }

    /// Returns the interface of this name.
    pub fn get(&self, name: &str) -> Result<Link> {
        self.find(name)?.ok_or_else(|| Error::Missing { interface: name.to_owned() })
    }

    /// Brings an interface up if it is down; returns its new state.
    pub fn bring_up(&self, link: &Link) -> Result<Link> {
        if link.is_up {
            return Ok(link.clone());
        }
        let mut change = LinkMessage::default();
        change.header.flags = LinkFlags::Up;
        change.header.change_mask = LinkFlags::Up;
        self.change(link, change, "bring it up")
    }

    /// Sets an interface's MTU; returns its new state.
    pub fn set_mtu(&self, link: &Link, mtu: usize) -> Result<Link> {
        let mut change = LinkMessage::default();
        // A value beyond an i32 becomes one that every driver refuses.
        change.attributes.push(LinkAttribute::Mtu(i32::try_from(mtu).unwrap_or(i32::MAX).cast_unsigned()));
        self.change(link, change, "set its MTU")
    }

    /// Changes the interface by its index: an interface that has taken over the name is left alone.
    fn change(&self, link: &Link, mut change: LinkMessage, action: &'static str) -> Result<Link> {
        change.header.index = link.index;
        let refused = Error::refused(&link.name, action, "CAP_NET_ADMIN", "check the value, and the kernel's log");
        self.0.tell(RouteNetlinkMessage::SetLink(change)).map_err(refused)?;
        self.get(&link.name)
    }
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
        let lo = Link::named("lo").unwrap();
        assert_eq!((lo.index, lo.name.as_str(), lo.mac), (1, "lo", [0; 6]));
        assert!(lo.mtu >= 1500);
        lo.require_ethernet().unwrap();
    }

    #[test]
    fn missing_interface_is_named() {
        let links = Links::open().unwrap();
        assert_eq!(links.find("no-such-netdev").unwrap(), None);
        let error = links.get("no-such-netdev").unwrap_err();
        assert!(matches!(&error, Error::Missing { interface } if interface == "no-such-netdev"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let link = |is_up, has_carrier| Link {
            index: 2,
            name: "eth0".into(),
            mac: [0; 6],
            mtu: 1500,
            is_up,
            has_carrier,
            hardware: libc::ARPHRD_ETHER,
        };
        assert_eq!(link(true, true).trouble(), None);
        assert!(link(false, false).trouble().unwrap().contains("administratively down"));
        assert!(link(true, false).trouble().unwrap().contains("no carrier"));
    }
}
