//! Receiving what is meant for others.

use std::os::fd::OwnedFd;

use super::socket::Socket;
use crate::{Link, Result};

/// Has an interface receive frames for every address, for whoever receives from it, as long as this lives.
#[derive(Debug)]
pub struct Promiscuous {
    _socket: OwnedFd,
}

impl Promiscuous {
    /// Begins to.
    pub fn set(link: &Link) -> Result<Self> {
        let socket = Socket::open(link)?;
        socket.set_promiscuous()?;
        Ok(Self { _socket: socket.into_fd() })
    }
}
