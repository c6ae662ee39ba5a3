//! `[aggregation]`.

use super::*;

/// Returns the section of a switch with these addresses.
pub fn aggregation(mac: &str, address: &str) -> RawAggregation {
    let addresses = [address.to_owned()].into_iter().collect();
    RawAggregation { mac: mac.into(), addresses, ..RawAggregation::default() }
}

/// Returns a next hop with these addresses.
pub fn next_hop(nfi: i64, mac: &str, ip: &str) -> RawNextHop {
    RawNextHop { nfi: nfi.into(), mac: mac.into(), ip: ip.into(), ..RawNextHop::default() }
}

/// Returns a flow: packets of a service chain go to a next hop.
pub fn flow(sc: i64, nfi: i64) -> RawFlow {
    RawFlow { sc: sc.into(), nfi: nfi.into() }
}
