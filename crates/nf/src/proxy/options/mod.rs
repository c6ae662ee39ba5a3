//! Options of a proxy.

mod parse;

pub use parse::ParseError;

use packet::MacAddr;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;

/// The options of a proxy.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its address, with the length of the network's prefix.
    pub address: Prefix,
    /// The router to other networks.
    pub gateway: Option<Ipv4Addr>,
    /// Bytes of the longest IP packet.
    pub mtu: u16,
    /// Services that it offers to the network.
    pub serve: Vec<Serve>,
    /// Services of the network that it offers locally.
    pub reach: Vec<Reach>,
    /// Its limits.
    pub limits: Limits,
}

/// An address with the length of its network's prefix, such as `10.0.0.2/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The address.
    pub address: Ipv4Addr,
    /// Bits of the prefix.
    pub len: u8,
}

/// The limits of a proxy.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most connections at a time, those of both directions together.
    pub connections: usize,
    /// Most connections from the network of one peer's address, whether their handshake is over or not.
    pub per_source: usize,
    /// Most connections from the network whose handshake is not over.
    pub backlog: usize,
    /// Bytes of each of the two buffers of a connection.
    pub buffer: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 256, per_source: 256, backlog: 64, buffer: 256 << 10 }
    }
}

/// A local socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port at a loopback address.
    Tcp(SocketAddr),
}

/// A port of the network, and the local service behind it: `6379=unix:/run/redis.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serve {
    /// The port at the proxy's address.
    pub port: u16,
    /// The service.
    pub to: Endpoint,
}

/// A local socket to listen on, and the service in the network behind it: `unix:/run/r.sock=10.0.0.3:6379`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The local socket.
    pub at: Endpoint,
    /// The service.
    pub to: SocketAddrV4,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
            Endpoint::Tcp(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}
