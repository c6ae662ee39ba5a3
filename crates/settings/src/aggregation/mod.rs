//! `[aggregation]`: the rules for joining short packets. Checked and built here for every program that aggregates.

mod file;
pub mod raw;

pub use file::{LoadError, load, load_for_one_port};
pub use raw::{ServiceChainId, Transport, UnknownChains};

use crate::checker::Checker;
use crate::problem::Problem;
use crate::written::{At, Field, Section, Table};
use packet::{MacAddr, header_len};
use paflow::header::entry_size;
use paflow::outer::{Addresses, Carrier, Checksum, Route, RouteError, Template, Tunnel};
use paflow::rules::{self, Chains};
use paflow::table::key::VXLAN_PORT;
use raw::{ChecksumMode, RawAggregation, RawFlow, RawNextHop};
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;

/// Hop limit of aggregates: the one of RFC 1700, still recommended.
pub const HOP_LIMIT: u8 = 64;

/// First of the dynamic ports (RFC 6335), from which source ports are generated.
const DYNAMIC_PORTS: u16 = 49_152;

/// The rules for joining short packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregation {
    /// Longest aggregate, as an IP packet.
    pub mtu: u16,
    /// Transport of aggregates.
    pub transport: Transport,
    /// Source of a packet's service chain.
    pub service_chain_id: ServiceChainId,
    /// Destination port of aggregates.
    pub udp_port: u16,
    /// Source of outer Ethernet headers.
    pub mac: MacAddr,
    /// Own addresses, at most one of each IP version.
    pub addresses: Vec<IpAddr>,
    /// The UDP checksum mode, if it is the same for both IP versions.
    pub checksum: Option<Checksum>,
    /// Treatment of packets that are in no flow.
    pub unknown_chains: UnknownChains,
    /// Next hops, with unique numbers.
    pub next_hops: Vec<NextHop>,
    /// Flows. Chains are unique; the next hop of each exists.
    pub flows: Vec<Flow>,
}

/// A next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Its number.
    pub nfi: u16,
    /// Destination of outer Ethernet headers.
    pub mac: MacAddr,
    /// Its address; there is an own address of the same IP version.
    pub ip: IpAddr,
    /// Whether routers are on the way.
    pub routed: bool,
    /// The port that leads to it, if given.
    pub port: Option<String>,
    /// VLAN tag of aggregates to it, if any.
    pub vlan: Option<u16>,
    /// VXLAN network of aggregates to it.
    pub vni: u32,
    /// UDP source port of aggregates to it.
    pub source_port: u16,
}

/// A flow: packets of one service chain go to one next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The VLAN or VNI.
    pub sc: u32,
    /// Number of the next hop.
    pub nfi: u16,
}

impl Aggregation {
    /// Returns the rules.
    pub fn spec(&self) -> rules::Spec {
        let next_hop = |hop: &NextHop| rules::NextHop { nfi: hop.nfi, route: self.route(hop), port: hop.port.clone() };
        rules::Spec {
            mtu: self.mtu,
            chains: match self.service_chain_id {
                ServiceChainId::Vlan => Chains::Vlan,
                ServiceChainId::Vni => Chains::Vni,
            },
            receiver: self.receiver(),
            mac: self.mac,
            addresses: self.addresses.clone(),
            drop_unknown: self.unknown_chains == UnknownChains::Drop,
            relay: None,
            next_hops: self.next_hops.iter().map(next_hop).collect(),
            flows: self.flows.iter().map(|flow| (flow.sc, flow.nfi)).collect(),
        }
    }

    /// Returns the criteria for aggregates.
    fn receiver(&self) -> paflow::Receiver {
        let port = |transport| (self.transport == transport).then_some(self.udp_port);
        paflow::Receiver {
            udp_port: port(Transport::Udp),
            vxlan_port: port(Transport::Vxlan),
            ethernet: false,
            zero_checksum_over_ipv6: self.checksum == Some(Checksum::Zero),
            verify: true,
        }
    }

    /// Returns the headers to `hop`.
    pub fn route(&self, hop: &NextHop) -> Route {
        let own = self.addresses.iter().copied();
        let addresses = match hop.ip {
            IpAddr::V4(destination) => {
                let mut own = own.filter_map(|ip| if let IpAddr::V4(ip) = ip { Some(ip) } else { None });
                Addresses::V4 { source: own.next().unwrap_or(destination), destination }
            }
            IpAddr::V6(destination) => {
                let mut own = own.filter_map(|ip| if let IpAddr::V6(ip) = ip { Some(ip) } else { None });
                Addresses::V6 { source: own.next().unwrap_or(destination), destination }
            }
        };
        let tunnel = Tunnel {
            addresses,
            source_port: hop.source_port,
            destination_port: self.udp_port,
            hop_limit: HOP_LIMIT,
            checksum: self.checksum.unwrap_or(usual_checksum(&addresses)),
        };
        let (source, destination) = (self.mac, hop.mac);
        let carrier = match self.transport {
            Transport::Udp => Carrier::Udp(tunnel),
            Transport::Vxlan => Carrier::Vxlan { tunnel, vni: hop.vni, source, destination },
        };
        Route { source, destination, vlan: hop.vlan, routed: hop.routed, carrier }
    }
}

/// Builds the section.
pub fn build(check: &mut Checker, raw: &At<Table<RawAggregation>>) -> Aggregation {
    let transport = raw.transport.as_ref().map_or_else(Default::default, |at| at.value);
    let default_port = match transport {
        Transport::Udp => paflow::header::UDP_PORT,
        Transport::Vxlan => VXLAN_PORT,
    };
    let mac = check.required(&raw.span, "mac", &raw.mac, "mac = \"02:00:00:00:00:01\"");
    let mut built = Aggregation {
        mtu: check.number("mtu", &raw.mtu, &raw::AGGREGATE_MTUS, raw::DEFAULT_AGGREGATE_MTU) as u16,
        transport,
        service_chain_id: raw.service_chain_id.as_ref().map_or_else(Default::default, |at| at.value),
        udp_port: check.number("udp-port", &raw.udp_port, &raw::UDP_PORTS, default_port.into()) as u16,
        mac: mac.and_then(|at| check.unicast(at)).unwrap_or(MacAddr([2, 0, 0, 0, 0, 1])),
        addresses: addresses(check, raw),
        checksum: raw.checksum.as_ref().map(|at| given_checksum(at.value)),
        unknown_chains: raw.unknown_chains.as_ref().map_or_else(Default::default, |at| at.value),
        next_hops: Vec::new(),
        flows: Vec::new(),
    };
    let mut numbers = HashMap::new();
    for raw_hop in &raw.next_hops {
        let hop = next_hop(check, raw_hop, &built, &mut numbers);
        if let Some(hop) = hop {
            fits(check, raw, raw_hop, &built, &hop);
            built.next_hops.push(hop);
        }
    }
    let mut chains = HashMap::new();
    built.flows = raw.flows.iter().filter_map(|flow_at| flow(check, flow_at, &built, &numbers, &mut chains)).collect();
    built
}

fn addresses(check: &mut Checker, raw: &At<Table<RawAggregation>>) -> Vec<IpAddr> {
    let Some(list) = check.required(&raw.span, "addresses", &raw.addresses, "addresses = [\"192.0.2.1\"]") else {
        return Vec::new();
    };
    if list.is_empty() {
        check.error(&list.span, "the switch has no address", "give one, as in [\"192.0.2.1\"]");
    }
    let mut built: Vec<IpAddr> = Vec::new();
    for at in &list.value {
        let Some(ip) = station(check, at) else { continue };
        if built.iter().any(|other| other.is_ipv4() == ip.is_ipv4()) {
            check.error(&at.span, "there are two addresses of this version of IP", "keep one of each version");
        } else {
            built.push(ip);
        }
    }
    built
}

fn given_checksum(mode: ChecksumMode) -> Checksum {
    match mode {
        ChecksumMode::Zero => Checksum::Zero,
        ChecksumMode::Computed => Checksum::Computed,
    }
}

fn usual_checksum(addresses: &Addresses) -> Checksum {
    match addresses {
        Addresses::V4 { .. } => Checksum::Zero,
        Addresses::V6 { .. } => Checksum::Computed,
    }
}

/// Returns the checksum mode between two addresses.
pub fn checksum(given: Option<ChecksumMode>, addresses: &Addresses) -> Checksum {
    given.map_or_else(|| usual_checksum(addresses), given_checksum)
}

/// Returns the address of a single station at `at`; reports any other value.
pub fn station(check: &mut Checker, at: &At<String>) -> Option<IpAddr> {
    match at.parse::<IpAddr>() {
        Ok(ip) if ip.is_multicast() || ip.is_unspecified() || ip.is_loopback() => {
            check.error(&at.span, format!("{ip} is not the address of a single station"), "give a unicast address");
            None
        }
        Ok(ip) => Some(ip),
        Err(_) => {
            let help = "write \"192.0.2.1\" or \"2001:db8::1\"";
            check.error(&at.span, format!("`{}` is not an IP address", at.value), help);
            None
        }
    }
}

/// Returns the number of a next hop; `None` if it is missing or wrong.
fn nfi(check: &mut Checker, table: &Range<usize>, field: &Field<i64>) -> Option<u16> {
    check.required(table, "nfi", field, "nfi = 7")?;
    // A number out of range was reported, and belongs to no hop.
    u16::try_from(check.number("nfi", field, &raw::NFIS, 0)).ok().filter(|&nfi| nfi != 0)
}

fn next_hop<'a>(
    check: &mut Checker,
    raw: &'a Section<RawNextHop>,
    built: &Aggregation,
    numbers: &mut HashMap<u16, &'a Range<usize>>,
) -> Option<NextHop> {
    let nfi = nfi(check, &raw.span, &raw.nfi);
    if let (Some(nfi), Some(at)) = (nfi, raw.nfi.as_ref())
        && let Some(first) = numbers.insert(nfi, &at.span)
    {
        check.problems.push(
            Problem::error(&at.span, format!("there are two next hops {nfi}"), "give each its own number")
                .and_at(first, "the first one"),
        );
    }
    let mac = check.required(&raw.span, "mac", &raw.mac, "mac = \"02:00:00:00:00:02\"");
    let mac = mac.and_then(|at| check.unicast(at));
    let ip = check.required(&raw.span, "ip", &raw.ip, "ip = \"192.0.2.2\"");
    let ip = ip.and_then(|at| peer(check, at, built));
    let port = raw.port.as_ref().map(|at| at.value.clone());
    let vlan = raw.vlan.as_ref().map(|_| check.number("vlan", &raw.vlan, &raw::VIDS, raw::VIDS.start) as u16);
    if built.transport == Transport::Vxlan {
        check.required(&raw.span, "vni", &raw.vni, "vni = 100");
    } else if let Some(at) = raw.vni.as_ref() {
        check.error(&at.span, "`vni` means nothing to transport udp", "remove it, or use transport = \"vxlan\"");
    }
    let vni = check.number("vni", &raw.vni, &raw::VNIS, 0) as u32;
    let made_up = DYNAMIC_PORTS | nfi.unwrap_or(0) & !DYNAMIC_PORTS;
    let source_port = check.number("source-port", &raw.source_port, &raw::UDP_PORTS, made_up.into()) as u16;
    let routed = raw.routed.as_ref().is_some_and(|at| at.value);
    Some(NextHop { nfi: nfi?, mac: mac?, ip: ip?, routed, port, vlan, vni, source_port })
}

/// Returns the address at `at` of another station, reachable from an own address; reports any other value.
fn peer(check: &mut Checker, at: &At<String>, built: &Aggregation) -> Option<IpAddr> {
    let ip = station(check, at)?;
    if built.addresses.contains(&ip) {
        check.error(&at.span, "this is the switch's own address", "give the address of the next hop");
    } else if !built.addresses.is_empty() && built.addresses.iter().all(|own| own.is_ipv4() != ip.is_ipv4()) {
        let version = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
        check.error(
            &at.span,
            format!("the switch has no {version} address to send from"),
            "add one to `addresses` of [aggregation]",
        );
    }
    Some(ip)
}

/// Reports a next hop that aggregates cannot be sent to.
fn fits(check: &mut Checker, raw: &RawAggregation, raw_hop: &Section<RawNextHop>, built: &Aggregation, hop: &NextHop) {
    /// The length that every link of IPv6 carries (RFC 8200 §5), in a tagged frame.
    const IPV6: u16 = 1280 + (header_len::ETHERNET + header_len::VLAN_TAG) as u16;
    let error = match Template::new(&built.route(hop), built.mtu) {
        Ok(template) if hop.routed && template.room() < entry_size(IPV6) => {
            let message = "IPv6 packets of 1280 bytes do not fit, and hosts make them no shorter";
            let missing = entry_size(IPV6) - template.room();
            let help = format!("raise `mtu` to {} if functions use IPv6", u32::from(built.mtu) + missing);
            return check.warn(&raw_hop.span, message, help);
        }
        Ok(_) => return,
        Err(error) => error,
    };
    let at = match error {
        RouteError::Mtu { .. } => raw.mtu.as_ref().map(|at| &at.span),
        RouteError::Vni(_) | RouteError::Port => None,
    };
    check.error(at.unwrap_or(&raw_hop.span), error.to_string(), "give another value");
}

fn flow<'a>(
    check: &mut Checker,
    raw: &'a Section<RawFlow>,
    built: &Aggregation,
    numbers: &HashMap<u16, &Range<usize>>,
    chains: &mut HashMap<i64, &'a Range<usize>>,
) -> Option<Flow> {
    let range = match built.service_chain_id {
        ServiceChainId::Vlan => &raw::VIDS,
        ServiceChainId::Vni => &raw::VNIS,
    };
    let sc = check.required(&raw.span, "sc", &raw.sc, "sc = 100");
    let number = check.number("sc", &raw.sc, range, range.start);
    let nfi = nfi(check, &raw.span, &raw.nfi);
    if let Some(at) = sc.filter(|at| range.contains(&at.value))
        && let Some(first) = chains.insert(at.value, &at.span)
    {
        check.problems.push(
            Problem::error(&at.span, format!("service chain {number} has two flows"), "remove one of them")
                .and_at(first, "the first one"),
        );
    }
    if let (Some(nfi), Some(at)) = (nfi, raw.nfi.as_ref())
        && !numbers.contains_key(&nfi)
    {
        let help = format!("add an [[aggregation.next-hop]] with nfi = {nfi}");
        check.error(&at.span, format!("there is no next hop {nfi}"), help);
    }
    sc?;
    Some(Flow { sc: number as u32, nfi: nfi? })
}
