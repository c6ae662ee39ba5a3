//! `[aggregation]` as it is written.

use crate::written::{At, Field, Section};
use schemars::JsonSchema;
use std::ops::Range;

/// MTUs of aggregates: the longest that every kind of port carries is that of the usual jumbo frame.
pub const AGGREGATE_MTUS: Range<i64> = 256..9001;
/// Usable VLAN identifiers: 0 and 4095 are reserved (IEEE 802.1Q, table 9-2).
pub const VIDS: Range<i64> = 1..4095;
/// Identifiers of network function instances; 0 stands for none.
pub const NFIS: Range<i64> = 1..65_536;
/// VXLAN network identifiers (RFC 7348).
pub const VNIS: Range<i64> = 0..1 << 24;
/// UDP ports.
pub const UDP_PORTS: Range<i64> = 1..65_536;
/// Default `mtu` of aggregates.
pub const DEFAULT_AGGREGATE_MTU: i64 = 1500;

/// `[aggregation]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "aggregation", extend("required" = ["mac", "addresses"]))]
pub struct RawAggregation {
    /// Longest IP packet that an aggregate may be, on every path to a next hop.
    #[schemars(range(min = AGGREGATE_MTUS.start, max = AGGREGATE_MTUS.end - 1), extend("default" = DEFAULT_AGGREGATE_MTU))]
    pub mtu: Field<i64>,
    /// Protocol that carries aggregates.
    #[schemars(extend("default" = "udp"))]
    pub transport: Field<Transport>,
    /// Part of a packet that names its service chain.
    #[schemars(extend("default" = "vlan"))]
    pub service_chain_id: Field<ServiceChainId>,
    /// Destination port of aggregates, sent and received.
    #[schemars(range(min = UDP_PORTS.start, max = UDP_PORTS.end - 1), extend("x-default" = "`50261` for udp, `4789` for vxlan"))]
    pub udp_port: Field<i64>,
    /// Source address of the Ethernet headers around aggregates; unicast.
    pub mac: Field<String>,
    /// IP addresses of this switch, at most one of each version: source of the aggregates that it sends. Those to other
    /// addresses are not split, but forwarded like any frame. Ports with `aggregate` answer requests for them.
    pub addresses: Field<Vec<At<String>>>,
    /// UDP checksum of aggregates that are sent. With `zero`, aggregates over IPv6 without one are accepted, too.
    #[schemars(extend("x-default" = "`\"zero\"` over IPv4, `\"computed\"` over IPv6"))]
    pub checksum: Field<ChecksumMode>,
    /// Treatment of packets of chains that are in no flow, at a port that aggregates.
    #[schemars(extend("default" = "pass"))]
    pub unknown_chains: Field<UnknownChains>,
    /// A next hop: the switch or network function that receives the aggregates for an NFI.
    #[serde(rename = "next-hop", skip_serializing_if = "Vec::is_empty")]
    pub next_hops: Vec<Section<RawNextHop>>,
    /// A flow: packets of one service chain go to one next hop.
    #[serde(rename = "flow", skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<Section<RawFlow>>,
}

/// One `[[aggregation.next-hop]]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "next-hop", extend("required" = ["nfi", "mac", "ip"]))]
pub struct RawNextHop {
    /// Identifier of the network function instance, unique in the file.
    #[schemars(range(min = NFIS.start, max = NFIS.end - 1))]
    pub nfi: Field<i64>,
    /// Destination of the Ethernet header around aggregates: of the next hop itself, or of the router in front of it.
    pub mac: Field<String>,
    /// IP address of the next hop.
    pub ip: Field<String>,
    /// Whether there are routers on the path to it. They can't forward the packets themselves, so each then travels in an
    /// aggregate, if need be alone, which takes 48 bytes more over IPv4 and UDP. A packet that does not fit is fragmented if
    /// its IPv4 header allows that; otherwise it is dropped (`too-long`), and ICMP tells its sender which length fits. The
    /// outer IP header has the DSCP of the packets.
    #[schemars(extend("default" = false))]
    pub routed: Field<bool>,
    /// The port that it is behind. Packets that leave by another port are not joined for it. Required in a network function
    /// with several ports.
    #[schemars(extend("x-default" = "any port with `aggregate`"))]
    pub port: Field<String>,
    /// VLAN of the link to it: aggregates get this tag outside, independent of the tags of the packets in them.
    #[schemars(range(min = VIDS.start, max = VIDS.end - 1), extend("x-default" = "no tag"))]
    pub vlan: Field<i64>,
    /// VXLAN network that aggregates to it are in. Required for transport `vxlan`.
    #[schemars(range(min = VNIS.start, max = VNIS.end - 1))]
    pub vni: Field<i64>,
    /// UDP source port of aggregates to it. Next hops with different ones are spread over paths and queues.
    #[schemars(range(min = UDP_PORTS.start, max = UDP_PORTS.end - 1), extend("x-default" = "made up from `nfi`"))]
    pub source_port: Field<i64>,
}

/// One `[[aggregation.flow]]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "flow", extend("required" = ["sc", "nfi"]))]
pub struct RawFlow {
    /// The service chain: a VLAN, 1 to 4094, or a VNI, as `service-chain-id` says.
    #[schemars(range(min = VNIS.start, max = VNIS.end - 1))]
    pub sc: Field<i64>,
    /// The next hop.
    #[schemars(range(min = NFIS.start, max = NFIS.end - 1))]
    pub nfi: Field<i64>,
}

/// Protocol that carries aggregates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Transport {
    /// UDP over IP
    #[default]
    Udp,
    /// an Ethernet frame inside VXLAN
    Vxlan,
}

/// Part of a packet that names its service chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum ServiceChainId {
    /// the VID of its outermost VLAN tag
    #[default]
    Vlan,
    /// the VNI of its VXLAN header, to UDP port 4789
    Vni,
}

/// The UDP checksum of sent frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum ChecksumMode {
    /// none; over IPv6, the other end has to be told that this is accepted (RFC 6935)
    Zero,
    /// the checksum over everything, which reads every byte once more
    Computed,
}

/// Treatment of packets of unknown chains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum UnknownChains {
    /// they are sent unchanged
    #[default]
    Pass,
    /// they are dropped, with reason `unknown-chain`
    Drop,
}
