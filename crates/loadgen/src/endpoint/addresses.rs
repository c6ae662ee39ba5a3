//! Addresses of endpoints: all follow from the endpoint's number.

use packet::MacAddr;
use std::net::Ipv4Addr;

/// UDP port of all endpoints.
pub const UDP_PORT: u16 = 9000;

/// Number of an endpoint and its peer's. Endpoints 0 and 1 are a pair, 2 and 3, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Number of the endpoint.
    pub own: u8,
    /// Number of its peer.
    pub peer: u8,
}

impl Addresses {
    /// Returns the addresses of endpoint `number`.
    pub fn of(number: u8) -> Addresses {
        Addresses { own: number, peer: number ^ 1 }
    }

    /// Returns an endpoint's Ethernet address: 02:00:00:00:20:NN.
    pub fn mac(number: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0x20, number])
    }

    /// Returns an endpoint's IPv4 address, in 198.18.0.0/24, of the range for measurements (RFC 2544).
    pub fn ip(number: u8) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, 0, number.saturating_add(1))
    }
}
