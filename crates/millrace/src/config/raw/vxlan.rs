//! `[port.vxlan]` as it is written.

use super::{AGGREGATE_MTUS, ChecksumMode, DEFAULT_AGGREGATE_MTU, Field, Table, UDP_PORTS, VNIS};
use schemars::JsonSchema;

/// One `[port.vxlan]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "vxlan", extend("required" = ["vni", "local", "remote"]))]
pub struct RawVxlan {
    /// The virtual network. Frames of others are dropped.
    #[schemars(range(min = VNIS.start, max = VNIS.end - 1))]
    pub vni: Field<i64>,
    /// UDP port of VXLAN, at both ends.
    #[schemars(range(min = UDP_PORTS.start, max = UDP_PORTS.end - 1), extend("default" = paflow::table::key::VXLAN_PORT))]
    pub udp_port: Field<i64>,
    /// Longest IP packet on the path to the other end. Frames that would be longer are dropped: guests need an MTU that is 50
    /// less, over IPv6 70 less.
    #[schemars(range(min = AGGREGATE_MTUS.start, max = AGGREGATE_MTUS.end - 1), extend("default" = DEFAULT_AGGREGATE_MTU))]
    pub mtu: Field<i64>,
    /// UDP checksum of sent packets. Received ones need none, over IPv6 too (RFC 7348); if there is one, it has to be right.
    #[schemars(extend("x-default" = "`\"zero\"` over IPv4, `\"computed\"` over IPv6"))]
    pub checksum: Field<ChecksumMode>,
    /// This end of the tunnel.
    pub local: Field<Table<RawTunnelEnd>>,
    /// The other end. Frames from elsewhere are dropped.
    pub remote: Field<Table<RawTunnelEnd>>,
}

/// One `[port.vxlan.local]` or `[port.vxlan.remote]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "tunnel-end", extend("required" = ["mac", "ip"]))]
pub struct RawTunnelEnd {
    /// Address in the outer Ethernet header; unicast. For the other end, its own address or that of the next router.
    pub mac: Field<String>,
    /// IP address, of the same version at both ends.
    pub ip: Field<String>,
}
