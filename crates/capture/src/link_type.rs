//! The type of captured packets, from IANA's registry of link types.

use crate::error::Error;

/// LINKTYPE_ETHERNET.
pub(crate) const ETHERNET: u16 = 1;

/// Fails unless a link type is Ethernet. The upper bits in a file header have other meanings.
pub(crate) fn require_ethernet(link: i32) -> Result<(), Error> {
    match link as u16 {
        ETHERNET => Ok(()),
        other => Err(Error::LinkType(other)),
    }
}
