//! The contract of endpoints, and their names.

use super::addresses::Addresses;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of the Ethernet, IPv4 and UDP headers before the payload.
pub const HEADERS: usize = 14 + 20 + 8;

/// Greatest number of packets in a call.
pub const MAX_BURST: usize = 256;

/// Properties of an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Its addresses, and its peer's.
    pub addresses: Addresses,
    /// Packets received at once, at most [`MAX_BURST`].
    pub burst: u16,
    /// Bytes of the longest frame.
    pub longest: u16,
    /// Whether all bytes of received headers are compared, if they are not the kernel's.
    pub check_headers: bool,
    /// Descriptors of each virtio queue, a power of two.
    pub queue_size: u16,
    /// Whether to ask for packed virtio rings.
    pub packed: bool,
}

/// Sends and receives packets without ever waiting.
pub trait Endpoint: Sized {
    /// Whether each packet is on its way before the next one is filled, and taken before the next one is received.
    const ONE_BY_ONE: bool = false;

    /// Microseconds that a packet takes at most, on a machine that is not busy: a thread that needs much longer was not running.
    const PACKET_MICROS: f64 = 10.0;

    /// Opens an endpoint on a port: an interface, as `NAME`, or `NAME@FILE` in the network namespace of this file; or a
    /// vhost-user socket.
    fn open(port: &str, technique: Technique, setup: &Setup) -> Result<Self, EndpointError>;

    /// Sends packets of these frame lengths, at most [`MAX_BURST`], each with the payload that `fill` writes for its index.
    /// Returns how many of the first were taken; the others are not sent.
    fn send(&mut self, lengths: &[u16], fill: &mut impl FnMut(usize, &mut [u8])) -> Result<usize, EndpointError>;

    /// Hands the payloads of received packets of its peer to `take`, at most a burst, and returns their number. Each comes with
    /// whether its headers are as the peer wrote them, as far as [`Setup::check_headers`] asks for that. Frames that are not its
    /// peer's packets are skipped.
    fn receive(&mut self, take: &mut impl FnMut(&[u8], bool)) -> Result<usize, EndpointError>;

    /// Returns received packets of its peer to it, at most a burst, with their payloads unchanged; packets without room are
    /// lost. Returns how many were received and how many were sent.
    fn reflect(&mut self) -> Result<Reflected, EndpointError>;

    /// Checks that the port still exists; called some times in a second.
    fn check(&mut self) -> Result<(), EndpointError> {
        Ok(())
    }
}

/// Packets that an endpoint took and sent back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reflected {
    /// Packets received.
    pub received: u64,
    /// Packets of them that were sent.
    pub sent: u64,
}

/// Error of an endpoint.
#[derive(Debug, thiserror::Error)]
#[error("{port} ({technique}): {reason}")]
pub struct EndpointError {
    /// Interface or socket.
    pub port: String,
    /// Technique that it sends and receives with.
    pub technique: Technique,
    /// The cause.
    pub reason: String,
}

/// A technique by which an application sends and receives packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Technique {
    /// UDP sockets, a system call for each packet (`send`, `recv`).
    Udp,
    /// UDP sockets, a system call for each burst (`sendmmsg`, `recvmmsg`).
    UdpMmsg,
    /// Packet sockets, a system call for each packet.
    Raw,
    /// Packet sockets, a system call for each burst.
    RawMmsg,
    /// Packet sockets with rings in shared memory (`PACKET_RX_RING`, `PACKET_TX_RING`).
    Tpacket,
    /// `AF_XDP` sockets.
    AfXdp,
    /// A virtio-user port, by Millrace's library for network functions.
    VirtioUser,
    /// A virtio-user port, by DPDK.
    VirtioUserDpdk,
    /// A port of netmap.
    Netmap,
}

impl fmt::Display for Technique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().expect("none is skipped").get_name())
    }
}
