//! What a service listens on: loopback TCP, or a unix socket.

use super::{BindError, UnixSocket};
use crate::config::ListenAddress;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};

/// Why a service can't be reached.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// No unix socket.
    #[error(transparent)]
    Unix(#[from] BindError),
    /// No TCP port.
    #[error("cannot listen on {address}: {source}; free the port, or set another in [{section}] listen")]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// The section of the configuration that says so.
        section: &'static str,
        /// Why not.
        source: io::Error,
    },
}

/// A socket that listens.
#[derive(Debug)]
pub enum Listener {
    /// Loopback TCP.
    Tcp(TcpListener),
    /// A unix socket.
    Unix(UnixSocket),
}

impl Listener {
    /// Listens at `address`, as `section` of the configuration says.
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

    /// The TCP address that it listens on, if it is not a unix socket: with the port that the system chose for port 0.
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
