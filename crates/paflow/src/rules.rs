//! What whoever aggregates goes by: next hops, the aggregation table, and what is taken for an aggregate.

use crate::neighbour::Station;
use crate::octets::Octets;
use crate::outer::{Mac, Route, Template};
use crate::receive::{Found, Receiver, destination};
use crate::reject::Reject;
use crate::table::key::VXLAN_PORT;
use crate::table::{Nfi, Table, VniTable};
use std::net::IpAddr;

/// VNIs that the table has room for, unless the specification has more.
const VNIS: usize = 4096;

/// What rules are made from; checked by whoever makes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Longest payload of an Ethernet frame that an aggregate is in.
    pub mtu: u16,
    /// What tells the service chain of a packet.
    pub chains: Chains,
    /// What is taken for an aggregate.
    pub receiver: Receiver,
    /// The MAC address that belongs to the addresses.
    pub mac: Mac,
    /// Aggregates to these addresses are split, and to no others.
    pub addresses: Vec<IpAddr>,
    /// Packets of chains that are in no flow are dropped, instead of going as they are.
    pub drop_unknown: bool,
    /// The address that flows are taken at which other switches relay, if they are.
    pub relay: Option<Mac>,
    /// Next hops; numbers are unique, and routes fit the MTU.
    pub next_hops: Vec<NextHop>,
    /// The aggregation table: service chain and number of the next hop.
    pub flows: Vec<(u32, u16)>,
}

/// What tells the service chain of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chains {
    /// The VID of its outermost VLAN tag.
    Vlan,
    /// The VNI of its VXLAN header.
    Vni,
}

impl Chains {
    /// Its name in the configuration.
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
    /// The headers to it.
    pub route: Route,
    /// The only port that it is behind; any that aggregates if there is none.
    pub port: Option<String>,
}

/// A next hop, ready for use.
#[derive(Clone, Debug)]
pub struct Hop {
    /// Its number.
    pub nfi: Nfi,
    /// The headers to it.
    pub template: Template,
    /// The only port that it is behind, if that is known.
    pub port: Option<String>,
}

impl Hop {
    /// Bytes that an aggregate to this next hop has for packets if it leaves by the port of this name; none if the next
    /// hop is behind another one.
    pub fn room(&self, port: &str) -> u32 {
        if self.port.as_deref().is_none_or(|own| own == port) { self.template.room() } else { 0 }
    }
}

/// All rules in force at one time.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Which next hop a packet has.
    pub table: Table,
    /// The next hops.
    pub hops: Vec<Hop>,
    /// By number: the index in `hops` plus one, or zero. As long as the largest number needs.
    by_nfi: Box<[u16]>,
    receiver: Receiver,
    /// Who sends the aggregates, and takes those to its addresses.
    pub station: Station,
    /// Packets of chains that are in no flow are dropped.
    pub drop_unknown: bool,
    /// The address that relayed flows are taken at, if they are.
    pub relay: Option<Mac>,
}

impl Rules {
    /// The rules of `spec`, with flows laid over those that it has.
    pub fn new(spec: &Spec, laid: impl ExactSizeIterator<Item = (u32, u16)>) -> Rules {
        let mut table = match spec.chains {
            Chains::Vlan => Table::Vlan(Box::default()),
            Chains::Vni => Table::Vni(VniTable::new((spec.flows.len() + laid.len()).max(VNIS)), VXLAN_PORT),
        };
        for (chain, nfi) in spec.flows.iter().copied().chain(laid) {
            match (&mut table, Nfi::new(nfi)) {
                (Table::Vlan(table), nfi) => drop(table.set(chain as u16, nfi)),
                // There is room for all, and what is beyond the largest VNI no packet has.
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
        // Who sends aggregates here does so on the links that they are sent back on.
        let mut vlans: Vec<_> = spec.next_hops.iter().map(|hop| hop.route.vlan).collect();
        if vlans.is_empty() {
            vlans.push(None);
        }
        let station = Station { mac: spec.mac, addresses: spec.addresses.clone(), vlans };
        let &Spec { receiver, drop_unknown, relay, .. } = spec;
        Rules { table, hops, by_nfi, receiver, station, drop_unknown, relay }
    }

    /// No rules: nothing is joined or taken for an aggregate.
    pub fn none() -> Rules {
        let receiver = Receiver { udp_port: None, vxlan_port: None, ethernet: false, ..Receiver::default() };
        Rules {
            table: Table::Vlan(Box::default()),
            hops: Vec::new(),
            by_nfi: Box::default(),
            receiver,
            station: Station::default(),
            drop_unknown: false,
            relay: None,
        }
    }

    /// The index of a next hop in `hops`.
    #[inline(always)]
    pub fn hop(&self, nfi: Nfi) -> Option<usize> {
        usize::from(*self.by_nfi.get(usize::from(nfi.get()))?).checked_sub(1)
    }

    /// Finds the aggregate in a frame. `Ok(None)` says that there is none, or that it is for somebody else: such a frame is
    /// treated like any other. An error says that it is for us, and wrong.
    #[inline(always)]
    pub fn find<S: Octets + ?Sized>(&self, frame: &S) -> Result<Option<Found>, Reject> {
        match self.receiver.find(frame) {
            Ok(found) => Ok(found.filter(|found| found.addresses.is_none_or(|(_, to)| self.is_own(to)))),
            Err(reject) if destination(frame).is_none_or(|to| self.is_own(to)) => Err(reject),
            // What is wrong with somebody else's is for them to find.
            Err(_) => Ok(None),
        }
    }

    #[inline(always)]
    fn is_own(&self, address: IpAddr) -> bool {
        self.station.addresses.contains(&address)
    }
}
