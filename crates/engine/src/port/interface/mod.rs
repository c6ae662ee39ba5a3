//! Ports on interfaces of the kernel: the common part of tap, AF_PACKET and AF_XDP ports.

mod io;
mod watcher;

pub(super) use io::{raw, readable};
pub(super) use watcher::{Interface, Session, Watcher};
