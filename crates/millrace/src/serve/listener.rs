//! Listening sockets of services: loopback TCP, or unix.

use super::{BindError, UnixSocket};
use crate::config::ListenAddress;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};

/// Error that keeps a service from listening.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The unix socket could not be created.
    #[error(transparent)]
    Unix(#[from] BindError),
    /// The TCP port could not be bound.
    #[error("cannot listen on {address}: {source}; free the port, or set another in [{section}] listen")]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// The section of the configuration that gives it.
        section: &'static str,
        /// The cause.
        source: io::Error,
    },
}

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// Loopback TCP.
    Tcp(TcpListener),
    /// A unix socket.
    Unix(UnixSocket),
}

impl Listener {
    /// Listens on `address`, given in `section` of the configuration.
    pub fn bind(address: &ListenAddress, section: &'static str) -> Result<Self, ListenError> {
        Ok(match address {
            ListenAddress::Unix(path) => Self::Unix(UnixSocket::bind(path)?),
            ListenAddress::Tcp(address) => {
                let failed = |source| ListenError::Tcp { address: *address, section, source };
                let listener = TcpListener::bind(address).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                Self::Tcp(listener)
            }
        })
    }

    /// Returns the TCP address it listens on, with the port that the system chose for port 0; `None` for a unix socket.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
        }
    }
}
