//! Ports on interfaces of the kernel: what tap, AF_PACKET and AF_XDP ports have in common.

mod io;
mod watcher;

pub(super) use io::{raw, readable};
pub(super) use watcher::{Interface, Session, Watcher};
