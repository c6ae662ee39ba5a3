//! Validates and builds `[port.vxlan]`: the tunnel that ends at a port.

use super::check::Check;
use super::raw::{self, At, Field, RawPort, RawTunnelEnd, RawVxlan, Table};
use engine::port::kinds::KINDS;
use packet::MacAddr;
use paflow::outer::Addresses;
use paflow::table::key::VXLAN_PORT;
use paflow::vxlan::{Endpoints, TunnelEnd};
use settings::Problem;
use settings::aggregation::{HOP_LIMIT, checksum, station};
use std::net::IpAddr;
use std::ops::Range;

/// Builds the section, if there is one.
pub(super) fn build(check: &mut Check<'_>, port: &RawPort) -> Option<TunnelEnd> {
    let raw = port.vxlan.as_ref()?;
    let can = |name: &str| KINDS.iter().any(|(known, kind)| *known == name && kind.capabilities.faces_network);
    if let Some(driver) = port.driver.as_ref().filter(|driver| !can(driver.0)) {
        let names: Vec<_> = KINDS.iter().map(|(name, _)| *name).filter(|name| can(name)).collect();
        check.error(
            &raw.span,
            format!("no tunnel can end at a port of driver {}", driver.0),
            format!("end it at a port towards the network: {}", names.join(", ")),
        );
    }
    if let Some(aggregate) = port.aggregate.as_ref().filter(|at| at.value) {
        check.problems.push(
            Problem::error(
                &raw.span,
                "a port can't both aggregate and be the end of a tunnel",
                "remove one; [aggregation] has a transport \"vxlan\" of its own",
            )
            .and_at(&aggregate.span, "it aggregates here"),
        );
    }
    check.required(&raw.span, "vni", &raw.vni, "vni = 100");
    let local = end(check, raw, "local", &raw.local, "local = { mac = \"02:00:00:00:00:01\", ip = \"192.0.2.1\" }");
    let remote = end(check, raw, "remote", &raw.remote, "remote = { mac = \"02:00:00:00:00:02\", ip = \"192.0.2.2\" }");
    let mtu = check.number("mtu", &raw.mtu, &raw::AGGREGATE_MTUS, raw::DEFAULT_AGGREGATE_MTU) as u16;
    let port = check.number("udp-port", &raw.udp_port, &raw::UDP_PORTS, VXLAN_PORT.into()) as u16;
    let vni = check.number("vni", &raw.vni, &raw::VNIS, 0) as u32;
    let ((source, from, _), (destination, to, place)) = (local?, remote?);
    let addresses = match (from, to) {
        _ if from == to => {
            check.error(&place, "both ends have the same address", "give the address of the other end");
            return None;
        }
        (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6 { source, destination },
        _ => {
            let help = "give two addresses of IPv4, or two of IPv6";
            check.error(&place, format!("there is no path from {from} to {to}"), help);
            return None;
        }
    };
    let checksum = checksum(raw.checksum.as_ref().map(|at| at.value), &addresses);
    let endpoints = Endpoints { source, destination, addresses, port, vni, hop_limit: HOP_LIMIT, checksum };
    match TunnelEnd::new(&endpoints, mtu) {
        Ok(end) => Some(end),
        Err(error) => {
            check.error(&raw.span, error.to_string(), "give another value");
            None
        }
    }
}

/// Reads one end: its addresses, and the place of the IP address.
fn end(
    check: &mut Check<'_>,
    tunnel: &At<Table<RawVxlan>>,
    key: &str,
    field: &Field<Table<RawTunnelEnd>>,
    example: &str,
) -> Option<(MacAddr, IpAddr, Range<usize>)> {
    let raw = check.required(&tunnel.span, key, field, example)?;
    let mac = check.required(&raw.span, "mac", &raw.mac, "mac = \"02:00:00:00:00:01\"");
    let mac = mac.and_then(|at| check.unicast(at));
    let at = check.required(&raw.span, "ip", &raw.ip, "ip = \"192.0.2.1\"");
    let ip = at.and_then(|at| station(check, at));
    Some((mac?, ip?, at?.span.clone()))
}
