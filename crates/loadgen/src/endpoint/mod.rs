//! Endpoints of traffic: the ways in which an application sends and receives packets (techniques), behind one trait.
//!
//! Every technique carries the same packets: UDP over IPv4 in Ethernet, so that results compare. An application writes and
//! reads payloads only; headers are the endpoint's, or the kernel's.

mod addresses;
mod af_xdp;
mod available;
mod contract;
mod headers;
mod in_bursts;
mod interface;
mod one_by_one;
mod raw;
mod socket;
mod tpacket;
mod udp;
mod virtio_user;

pub use addresses::{Addresses, UDP_PORT};
pub use af_xdp::AfXdp;
pub use available::available;
pub use contract::{Endpoint, EndpointError, HEADERS, MAX_BURST, Reflected, Setup, Technique};
pub use in_bursts::InBursts;
pub use one_by_one::OneByOne;
pub use raw::RawSocket;
pub use tpacket::Tpacket;
pub use udp::UdpSocket;
pub use virtio_user::VirtioUser;
