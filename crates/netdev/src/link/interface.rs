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
    /// The hardware type, `ARPHRD_*`.
    pub(super) hardware: u16,
}

impl Link {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said() {
        let link = |is_up, has_carrier| Link {
            index: 2,
            name: "eth0".into(),
            mac: MacAddr::default(),
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
