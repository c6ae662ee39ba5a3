//! The rules of aggregation: next hops, the aggregation table, and which frames are aggregates.

use crate::neighbour::Station;
use crate::octets::Octets;
use crate::outer::{Route, Template};
use crate::plan::Room;
use crate::receive::{Found, Receiver, destination};
use crate::reject::Reject;
use crate::table::key::VXLAN_PORT;
use crate::table::{Nfi, Table, VniTable};
use packet::MacAddr;
use std::net::IpAddr;

/// Minimum capacity of the VNI table.
const VNIS: usize = 4096;

/// The specification of [`AggregationRules`]; its creator must have checked it.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Longest payload of an Ethernet frame with an aggregate.
    pub mtu: u16,
    /// The field that identifies service chains.
    pub chains: Chains,
    /// Settings that decide which frames are aggregates.
    pub receiver: Receiver,
    /// The MAC address of this end.
    pub mac: MacAddr,
    /// IP addresses of this end: only aggregates to these are split.
    pub addresses: Vec<IpAddr>,
    /// Whether packets of chains without a flow are dropped; otherwise they leave as they are.
    pub drop_unknown: bool,
    /// The MAC address for flows that other switches relay; `None` ignores them.
    pub relay: Option<MacAddr>,
    /// Next hops; numbers are unique, and routes fit the MTU.
    pub next_hops: Vec<NextHop>,
    /// The aggregation table: service chain and number of the next hop.
    pub flows: Vec<(u32, u16)>,
}

/// The field of a packet that identifies its service chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chains {
    /// The VID of its outermost VLAN tag.
    Vlan,
    /// The VNI of its VXLAN header.
    Vni,
}

impl Chains {
    /// Returns its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Chains::Vlan => "vlan",
            Chains::Vni => "vni",
        }
    }
}

/// A next hop of aggregates.
#[derive(Clone, Debug, PartialEq)]
pub struct NextHop {
    /// Its number, not zero.
    pub nfi: u16,
    /// The route to it.
    pub route: Route,
    /// The port to it; `None` for any port that aggregates.
    pub port: Option<String>,
}

/// A next hop, ready for use.
#[derive(Clone, Debug)]
pub struct Hop {
    /// Its number.
    pub nfi: Nfi,
    /// The headers to it.
    pub template: Template,
    /// The port to it; `None` for any port that aggregates.
    pub port: Option<String>,
}

impl Hop {
    /// Returns the room in an aggregate that leaves to this next hop by `port`: none if the next hop is behind another port.
    pub fn room(&self, port: &str) -> Room {
        if self.port.as_deref().is_none_or(|own| own == port) {
            Room { bytes: self.template.room(), routed: self.template.is_routed(), held: 0 }
        } else {
            Room::default()
        }
    }
}

/// A complete set of rules.
#[derive(Clone, Debug)]
pub struct AggregationRules {
    /// The aggregation table: from packet to next hop.
    pub table: Table,
    /// The next hops.
    pub hops: Vec<Hop>,
    /// By number: the index in `hops` plus one, or zero. Ends at the largest number.
    by_nfi: Box<[u16]>,
    receiver: Receiver,
    /// This end's addresses: the source of sent aggregates and the destination of received ones.
    pub station: Station,
    /// Whether packets of chains without a flow are dropped.
    pub drop_unknown: bool,
    /// The MAC address for relayed flows; `None` ignores them.
    pub relay: Option<MacAddr>,
}

impl AggregationRules {
    /// Builds the rules of `spec`; the flows in `laid` override its own.
    pub fn new(spec: &Spec, laid: impl ExactSizeIterator<Item = (u32, u16)>) -> AggregationRules {
        let mut table = match spec.chains {
            Chains::Vlan => Table::Vlan(Box::default()),
            Chains::Vni => Table::Vni(VniTable::new((spec.flows.len() + laid.len()).max(VNIS)), VXLAN_PORT),
        };
        for (chain, nfi) in spec.flows.iter().copied().chain(laid) {
            match (&mut table, Nfi::new(nfi)) {
                (Table::Vlan(table), nfi) => drop(table.set(chain as u16, nfi)),
                // There is room for all, and no packet has a VNI beyond the largest one.
                (Table::Vni(table, _), Some(nfi)) => drop(table.insert(chain, nfi)),
                (Table::Vni(table, _), None) => drop(table.remove(chain)),
            }
        }
        let hops: Vec<Hop> = spec
            .next_hops
            .iter()
            .filter_map(|hop| {
                let template = Template::new(&hop.route, spec.mtu).ok()?;
                Some(Hop { nfi: Nfi::new(hop.nfi)?, template, port: hop.port.clone() })
            })
            .collect();
        let largest = hops.iter().map(|hop| hop.nfi.get()).max().unwrap_or(0);
        let mut by_nfi = vec![0; usize::from(largest) + 1].into_boxed_slice();
        for (index, hop) in hops.iter().enumerate() {
            by_nfi[usize::from(hop.nfi.get())] = index as u16 + 1;
        }
        // Aggregates arrive in the same VLANs that they are sent in.
        let mut vlans: Vec<_> = spec.next_hops.iter().map(|hop| hop.route.vlan).collect();
        if vlans.is_empty() {
            vlans.push(None);
        }
        let station = Station { mac: spec.mac, addresses: spec.addresses.clone(), vlans };
        let &Spec { receiver, drop_unknown, relay, .. } = spec;
        AggregationRules { table, hops, by_nfi, receiver, station, drop_unknown, relay }
    }

    /// Returns empty rules: no packet is joined and no frame is an aggregate.
    pub fn none() -> AggregationRules {
        let receiver = Receiver { udp_port: None, vxlan_port: None, ethernet: false, ..Receiver::default() };
        AggregationRules {
            table: Table::Vlan(Box::default()),
            hops: Vec::new(),
            by_nfi: Box::default(),
            receiver,
            station: Station::default(),
            drop_unknown: false,
            relay: None,
        }
    }

    /// Returns the index of a next hop in `hops`.
    #[inline(always)]
    pub fn hop(&self, nfi: Nfi) -> Option<usize> {
        usize::from(*self.by_nfi.get(usize::from(nfi.get()))?).checked_sub(1)
    }

    /// Finds the aggregate in a frame. `Ok(None)` means that there is none, or that it is for another address: such a frame
    /// is treated like any other. An error means that it is for this end, and invalid.
    #[inline(always)]
    pub fn find<S: Octets + ?Sized>(&self, frame: &S) -> Result<Option<Found>, Reject> {
        match self.receiver.find(frame) {
            Ok(found) => Ok(found.filter(|found| found.addresses.is_none_or(|(_, to)| self.is_own(to)))),
            Err(reject) if destination(frame).is_none_or(|to| self.is_own(to)) => Err(reject),
            // Errors in frames for other addresses are not ours to report.
            Err(_) => Ok(None),
        }
    }

    /// Returns the settings that decide which frames are aggregates.
    #[inline(always)]
    pub fn receiver(&self) -> Receiver {
        self.receiver
    }

    #[inline(always)]
    fn is_own(&self, address: IpAddr) -> bool {
        self.station.addresses.contains(&address)
    }
}
