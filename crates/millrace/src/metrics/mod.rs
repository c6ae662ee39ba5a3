//! The metrics endpoint: OpenMetrics over HTTP, on loopback or a unix socket.

mod aggregation;
mod http;
mod text;

pub use text::render;

use crate::config::MetricsAddress;
use crate::control::Handler;
use crate::serve::{BindError, Stop, UnixSocket, serve};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Scrapes at a time.
const CONNECTIONS: usize = 8;

/// Why the endpoint could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// No unix socket.
    #[error(transparent)]
    Unix(#[from] BindError),
    /// No TCP port.
    #[error("cannot listen on {address} for metrics: {source}; free the port, or set another in [metrics] listen")]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
}

/// A metrics endpoint that listens.
#[derive(Debug)]
pub struct Exporter(Listener);

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixSocket),
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Exporter {
    /// Listens at `address`.
    pub fn bind(address: &MetricsAddress) -> Result<Self, MetricsError> {
        Ok(Self(match address {
            MetricsAddress::Unix(path) => Listener::Unix(UnixSocket::bind(path)?),
            MetricsAddress::Tcp(address) => {
                let failed = |source| MetricsError::Tcp { address: *address, source };
                let listener = TcpListener::bind(address).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                Listener::Tcp(listener)
            }
        }))
    }

    /// The TCP address that it listens on, if it is not a unix socket: with the port that the system chose for port 0.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match &self.0 {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(_) => None,
        }
    }

    /// Answers scrapes until `stop`.
    pub fn serve(self, handler: &Arc<dyn Handler>, stop: &Stop) {
        serve(
            "metrics",
            &self.0,
            CONNECTIONS,
            stop,
            |connection| http::answer(&connection, || render(&handler.snapshot())),
            |connection| http::refuse(&connection),
        );
    }
}

#[cfg(test)]
mod tests;
