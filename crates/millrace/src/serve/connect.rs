//! Outgoing connections.

use super::{Connection, Stop};
use crate::config::ListenAddress;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with, sockopt};
use std::io;
use std::time::Instant;

/// Connects to `address`, until `deadline` or `stop`.
pub fn connect(address: &ListenAddress, deadline: Instant, stop: &Stop) -> io::Result<Connection> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = |family| socket_with(family, SocketType::STREAM, flags, None);
    let (fd, begun) = match address {
        ListenAddress::Unix(path) => {
            let fd = socket(AddressFamily::UNIX)?;
            let begun = rustix::net::connect(&fd, &SocketAddrUnix::new(path)?);
            (fd, begun)
        }
        ListenAddress::Tcp(address) => {
            let fd = socket(if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 })?;
            let begun = rustix::net::connect(&fd, address);
            (fd, begun)
        }
    };
    match begun {
        Ok(()) => Ok(Connection::new(fd, stop.clone())),
        Err(Errno::INPROGRESS) => {
            let connection = Connection::new(fd, stop.clone());
            connection.wait_writable(deadline)?;
            // The socket also becomes writable on failure (connect(2)).
            sockopt::socket_error(connection.socket())??;
            Ok(connection)
        }
        Err(error) => Err(error.into()),
    }
}
