//! VLAN tags, which an interface's hardware may take out of received frames.

use super::ethtool;
use crate::link::Link;
use std::io;

/// `ETHTOOL_GFLAGS`, `ETHTOOL_SFLAGS` and `ETH_FLAG_RXVLAN` of linux/ethtool.h.
const GET_FLAGS: u32 = 0x25;
const SET_FLAGS: u32 = 0x26;
const TAKES_TAGS: u32 = 1 << 8;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// An interface whose hardware leaves tags in frames. Dropping it lets the hardware take them out again.
#[derive(Debug)]
pub struct TagsInFrames(Link);

/// Has the hardware of an interface leave VLAN tags in received frames (`ethtool -K eth1 rxvlan off`). Returns a guard that
/// undoes it, if it did not do so already. An error if it can't: "Operation not supported", mostly.
pub fn leave_tags(link: &Link) -> io::Result<Option<TagsInFrames>> {
    let before = flags(link)?;
    if before & TAKES_TAGS == 0 {
        return Ok(None);
    }
    set_flags(link, before & !TAKES_TAGS)?;
    if flags(link)? & TAKES_TAGS != 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(Some(TagsInFrames(link.clone())))
}

impl Drop for TagsInFrames {
    fn drop(&mut self) {
        // Another interface may have its name by now.
        let Some(link) = super::under_its_name(&self.0) else { return };
        let _ = flags(&link).and_then(|now| set_flags(&link, now | TAKES_TAGS));
    }
}

fn flags(link: &Link) -> io::Result<u32> {
    let mut value = Value { command: GET_FLAGS, data: 0 };
    ethtool(link, (&raw mut value).cast())?;
    Ok(value.data)
}

fn set_flags(link: &Link, flags: u32) -> io::Result<()> {
    let mut value = Value { command: SET_FLAGS, data: flags };
    ethtool(link, (&raw mut value).cast())
}
