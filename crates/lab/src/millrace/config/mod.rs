//! Configurations of Millrace, made of the types that the switch itself reads its file into.
//!
//! A configuration is the sum of its parts, in any order:
//!
//! ```
//! use lab::millrace::config::*;
//!
//! let text = (vhost_user("a"), tap("b", "tap0"), patch("a", "b"), sleeper()).text();
//! # assert!(millrace::config::Config::parse("m.toml".as_ref(), &text).is_ok());
//! ```
//!
//! A function here makes each part with the keys that it must have. Others are set by name:
//! `RawPort { vlan: 10.into(), ..vhost_user("a") }`, and for those of a port's driver:
//! `port("a", Tap { mtu: 9000.into(), ..Tap::default() })`.

mod aggregation;
mod joints;
mod part;
mod ports;
#[cfg(test)]
mod tests;
mod workers;

pub use aggregation::{aggregation, flow, next_hop};
pub use joints::{bridge, by_flows, exchange, listen, mapping, mirror, pass_through, patch, patched, stationed};
pub use part::{Configuration, Part, file};
pub use ports::{
    access, af_packet, af_xdp, dpdk_devices, dpdk_port, generator, loopback, port, record, replay, sink, socket, tap,
    trunk, trunk_of_all, vhost_user, vhost_user_by, virtio_user,
};
pub use workers::{backing_off, pinned, polling, sleeper, unconfined};

pub use ::millrace::config::raw::*;
pub use engine::port::af_packet::Keys as AfPacket;
pub use engine::port::af_xdp::{Keys as AfXdp, MoverKey};
pub use engine::port::dpdk::Keys as Dpdk;
pub use engine::port::generator::Keys as Generator;
pub use engine::port::keys::Side;
pub use engine::port::loopback::Keys as Loopback;
pub use engine::port::pcap::Keys as Pcap;
pub use engine::port::sink::Keys as Sink;
pub use engine::port::steer::SteerKeys;
pub use engine::port::tap::Keys as Tap;
pub use engine::port::vhost_user::{HolesKey, Keys as VhostUser, MemoryKey, QueuesKey};
pub use engine::port::virtio_user::Keys as VirtioUser;
