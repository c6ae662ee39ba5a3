//! The wire's end of a VXLAN tunnel, whose other end is the switch's port.

use paflow::outer::{Addresses, Checksum};
use paflow::vxlan::{Endpoints, TunnelEnd};
use std::net::Ipv4Addr;

/// VXLAN network identifier.
const VNI: u32 = 100;

/// Returns the tunnel's end at the wire: 192.0.2.2 and 02:00:00:00:01:02. The switch's end has 1 instead of 2.
pub fn end() -> TunnelEnd {
    let address = |host| Ipv4Addr::new(192, 0, 2, host);
    let mac = |host| [2, 0, 0, 0, 1, host];
    let endpoints = Endpoints {
        source: mac(2).into(),
        destination: mac(1).into(),
        addresses: Addresses::V4 { source: address(2), destination: address(1) },
        port: paflow::table::key::VXLAN_PORT,
        vni: VNI,
        hop_limit: 64,
        checksum: Checksum::Zero,
    };
    TunnelEnd::new(&endpoints, u16::MAX).expect("such a tunnel is possible")
}
