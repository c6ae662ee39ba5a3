//! The type of captured packets, from IANA's registry of link types.

use crate::error::Error;

/// LINKTYPE_ETHERNET.
pub(crate) const ETHERNET: u16 = 1;

/// Fails unless a link type is Ethernet.
pub(crate) fn require_ethernet(link: u16) -> Result<(), Error> {
    match link {
        ETHERNET => Ok(()),
        other => Err(Error::LinkType(other)),
    }
}
