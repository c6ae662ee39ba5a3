//! Promiscuous mode.

use std::os::fd::OwnedFd;

use super::socket::Socket;
use crate::error::Result;
use crate::link::Link;

/// A guard that keeps an interface in promiscuous mode, for all its receivers, while it lives.
#[derive(Debug)]
pub struct Promiscuous {
    _socket: OwnedFd,
}

impl Promiscuous {
    /// Enables it.
    pub fn set(link: &Link) -> Result<Self> {
        let socket = Socket::open(link)?;
        socket.set_promiscuous()?;
        Ok(Self { _socket: socket.into_fd() })
    }
}
