//! The state of a network interface.

use crate::error::{Error, Result};
use packet::MacAddr;

/// A snapshot of a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The interface's index; a deleted and recreated interface gets another one.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its MAC address; zeros if it has none.
    pub mac: MacAddr,
    /// The largest frame without its Ethernet header and VLAN tag.
    pub mtu: usize,
    /// Whether it is administratively up.
    pub is_up: bool,
    /// Whether it is up and has a carrier.
    pub has_carrier: bool,
    /// Whether it was moved into another network namespace, where only its name and whether it is up are known.
    pub is_elsewhere: bool,
    /// The hardware type, `ARPHRD_*`.
    pub(super) hardware: u16,
}

impl Link {
    /// Returns why no frame passes the interface, if so.
    pub fn trouble(&self) -> Option<String> {
        let place = self.place();
        match (self.is_up, self.has_carrier) {
            (false, _) => Some(format!("{place} is administratively down")),
            (true, false) => Some(format!("{place} has no carrier")),
            (true, true) => None,
        }
    }

    /// Returns its remaining data after it was moved into another network namespace.
    pub(crate) fn elsewhere(&self, name: String, is_up: bool) -> Link {
        Link { name, is_up, has_carrier: is_up, is_elsewhere: true, ..self.clone() }
    }

    /// Names it, and says if it is elsewhere.
    pub fn place(&self) -> String {
        match self.is_elsewhere {
            true => format!("interface {} in another network namespace", self.name),
            false => format!("interface {}", self.name),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_their_cause() {
        let link = |is_up, has_carrier| Link {
            index: 2,
            name: "eth0".into(),
            mac: MacAddr::default(),
            mtu: 1500,
            is_up,
            has_carrier,
            is_elsewhere: false,
            hardware: libc::ARPHRD_ETHER,
        };
        assert_eq!(link(true, true).trouble(), None);
        assert!(link(false, false).trouble().unwrap().contains("administratively down"));
        assert!(link(true, false).trouble().unwrap().contains("no carrier"));
        let moved = Link { is_elsewhere: true, ..link(false, false) };
        assert_eq!(moved.trouble().unwrap(), "interface eth0 in another network namespace is administratively down");
    }
}
