//! The metrics endpoint: OpenMetrics over HTTP, on loopback or a unix socket.

mod aggregation;
mod datapath;
mod exchange;
mod family;
mod http;
mod learning;
mod ports;
mod queues;
mod text;
mod workers;

pub use text::render;

use crate::config::ListenAddress;
use crate::control::Handler;
use crate::serve::{ListenError, Listener, Stop, serve};
use std::net::SocketAddr;
use std::sync::Arc;

/// Concurrent scrapes.
const CONNECTIONS: usize = 8;

/// A listening metrics endpoint.
#[derive(Debug)]
pub struct Exporter(Arc<Listener>);

impl Exporter {
    /// Listens on `address`.
    pub fn bind(address: &ListenAddress) -> Result<Self, ListenError> {
        Listener::bind(address, "metrics").map(Self)
    }

    /// Returns its socket.
    pub fn listener(&self) -> &Arc<Listener> {
        &self.0
    }

    /// Returns the TCP address it listens on, with the port that the system chose for port 0; `None` for a unix socket.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.0.tcp_address()
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
