//! Ports on interfaces of the kernel: what tap, AF_PACKET and AF_XDP ports have in common.

mod io;
mod keeper;

pub(super) use io::{raw, readable};
pub(super) use keeper::{Interface, Keeper, Session};
