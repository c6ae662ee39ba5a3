//! A static routing table.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A network, and the address of a host in it: `10.0.0.1/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The address as given.
    pub address: Ipv4Addr,
    /// Prefix length of the network.
    pub bits: u8,
}

/// Error: the text is not a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a network is an IPv4 address and 0 to 32 bits of it, like 10.0.0.0/24")]
pub struct BadNetwork;

impl Network {
    fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0)
    }

    /// Reports whether the address is in the network.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        (u32::from(address) ^ u32::from(self.address)) & self.mask() == 0
    }

    /// Reports whether this is the network's broadcast address. A network of 31 or 32 bits has none (RFC 3021).
    pub fn is_broadcast(self, address: Ipv4Addr) -> bool {
        self.bits < 31 && self.contains(address) && u32::from(address) | self.mask() == u32::MAX
    }
}

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Network, BadNetwork> {
        let (address, bits) = text.split_once('/').ok_or(BadNetwork)?;
        let address = address.parse().map_err(|_| BadNetwork)?;
        let bits = bits.parse().ok().filter(|bits| *bits <= 32).ok_or(BadNetwork)?;
        Ok(Network { address, bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// A route: `10.2.0.0/16=10.0.0.2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination network.
    pub network: Network,
    /// The next router on the way.
    pub via: Ipv4Addr,
}

/// Error: the text is not a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a route is a network and the next router, like 10.2.0.0/16=10.0.0.2")]
pub struct BadRoute;

impl FromStr for Route {
    type Err = BadRoute;

    fn from_str(text: &str) -> Result<Route, BadRoute> {
        let (network, via) = text.split_once('=').ok_or(BadRoute)?;
        let network = network.parse().map_err(|_| BadRoute)?;
        let via = via.parse().map_err(|_| BadRoute)?;
        Ok(Route { network, via })
    }
}

/// The output port and the neighbour for a network; `None` stands for the destination itself.
type Hop = (usize, Option<Ipv4Addr>);

/// Routes by network, the longest match first.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(Vec<(Network, Hop)>);

impl Table {
    pub(super) fn add(&mut self, network: Network, hop: Hop) {
        self.0.push((network, hop));
        self.0.sort_by_key(|(network, _)| std::cmp::Reverse(network.bits));
    }

    /// Returns the port and the neighbour to send a packet to.
    pub(super) fn find(&self, destination: Ipv4Addr) -> Option<(usize, Ipv4Addr)> {
        let (_, (port, via)) = self.0.iter().find(|(network, _)| network.contains(destination))?;
        Some((*port, via.unwrap_or(destination)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_match_wins() {
        let mut table = Table::default();
        let next = |n| Some(Ipv4Addr::new(192, 0, 2, n));
        table.add("0.0.0.0/0".parse().unwrap(), (0, next(1)));
        table.add("10.1.2.0/24".parse().unwrap(), (2, None));
        table.add("10.0.0.0/8".parse().unwrap(), (1, next(2)));
        assert_eq!(table.find([10, 1, 2, 3].into()), Some((2, [10, 1, 2, 3].into())));
        assert_eq!(table.find([10, 1, 3, 3].into()), Some((1, [192, 0, 2, 2].into())));
        assert_eq!(table.find([11, 1, 3, 3].into()), Some((0, [192, 0, 2, 1].into())));
        assert_eq!(Table::default().find([10, 0, 0, 1].into()), None);
    }

    #[test]
    fn networks_and_routes_are_parsed() {
        let network: Network = "10.1.2.3/24".parse().unwrap();
        assert!(network.contains([10, 1, 2, 255].into()) && !network.contains([10, 1, 3, 0].into()));
        assert!(network.is_broadcast([10, 1, 2, 255].into()) && !network.is_broadcast([10, 1, 2, 254].into()));
        assert_eq!(network.to_string(), "10.1.2.3/24");
        assert!(["10.1.2.3", "10.1.2.3/33", "10.1.2/24", "x/8"].iter().all(|bad| bad.parse::<Network>().is_err()));
        let route: Route = "10.2.0.0/16=10.0.0.2".parse().unwrap();
        assert_eq!(route.via, Ipv4Addr::new(10, 0, 0, 2));
        assert!(["10.2.0.0/16", "10.2.0.0=10.0.0.2", "10.2.0.0/16=x"].iter().all(|bad| bad.parse::<Route>().is_err()));
    }
}
