//! Sockets of the kernel that carry packets, one in each message.

use super::contract::Setup;
use netdev::Link;
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Bytes that may wait in a socket, as the kernel counts: some thousand short packets.
pub(super) const RECEIVE_BYTES: usize = 4 << 20;

/// A socket whose messages are packets, or the parts of packets that the kernel leaves to this program.
pub trait Socket: AsFd + Send + Sized {
    /// Bytes of a frame that the kernel adds before a message.
    const KERNELS: usize;

    /// Opens the socket on an interface.
    fn open(link: &Link, setup: &Setup) -> Result<Self, String>;

    /// Writes the part of a message to the peer that is not payload, and returns the payload.
    fn begin<'m>(&self, message: &'m mut [u8]) -> &'m mut [u8];

    /// Returns the payload of a received message, and whether the rest is as the peer wrote it; `None` if the message is no
    /// packet of the peer.
    fn payload<'m>(&self, message: &'m [u8]) -> Option<(&'m [u8], bool)>;
}

/// Reports whether the error of a socket passes: there is no room or no message, or the kernel reports that a peer whose socket
/// is not open yet did not take an earlier packet.
pub(super) fn passes(error: Errno) -> bool {
    [Errno::AGAIN, Errno::NOBUFS, Errno::CONNREFUSED, Errno::INTR].contains(&error)
}
