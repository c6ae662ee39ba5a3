//! Looking up interfaces, and the settings that a port needs.

use super::interface::Link;
use super::name::check_name;
use super::socket::Socket;
use crate::error::{Error, Result};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkExtentMask, LinkFlags, LinkMessage};
use rustix::io::Errno;

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

impl Link {
    /// Looks up the interface of this name in the calling thread's network namespace.
    pub fn named(name: &str) -> Result<Self> {
        Links::open()?.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback() {
        let lo = Link::named("lo").unwrap();
        assert_eq!((lo.index, lo.name.as_str(), lo.mac.0), (1, "lo", [0; 6]));
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
}
