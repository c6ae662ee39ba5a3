//! What ports that aggregate go by: next hops, the aggregation table, and what is taken for an aggregate.

use crate::spec::{AggregationSpec, Chains};
use crate::stats::AggregationFlow;
use paflow::table::key::VXLAN_PORT;
use paflow::table::{Table, VlanTable, VniTable};
use paflow::{Nfi, Receiver, Template};
use std::net::IpAddr;

/// VNIs that the table has room for, unless the specification has more.
const VNIS: usize = 4096;

/// A next hop.
pub(crate) struct Hop {
    pub(crate) nfi: Nfi,
    pub(crate) template: Template,
    /// The only port that it is behind, if that is known.
    pub(crate) port: Option<String>,
}

/// All rules in force at one time.
pub(crate) struct Rules {
    pub(crate) table: Table,
    pub(crate) hops: Vec<Hop>,
    /// By number: the index in `hops` plus one, or zero. As long as the largest number needs.
    by_nfi: Box<[u16]>,
    pub(crate) receiver: Receiver,
    addresses: Vec<IpAddr>,
    pub(crate) drop_unknown: bool,
    /// The address that relayed flows are taken at, if they are.
    pub(crate) relay: Option<[u8; 6]>,
}

impl Rules {
    /// The rules of `spec`, with flows laid over those that it has; none at all if there is no `spec`: nothing is joined
    /// or taken for an aggregate.
    pub(crate) fn new(spec: Option<&AggregationSpec>, laid: &[AggregationFlow]) -> Rules {
        let Some(spec) = spec else { return Rules::none() };
        let mut table = match spec.chains {
            Chains::Vlan => Table::Vlan(Box::default()),
            Chains::Vni => Table::Vni(VniTable::new((spec.flows.len() + laid.len()).max(VNIS)), VXLAN_PORT),
        };
        let laid = laid.iter().map(|flow| (flow.sc, flow.nfi));
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
        let (receiver, addresses) = (spec.receiver, spec.addresses.clone());
        Rules { table, hops, by_nfi, receiver, addresses, drop_unknown: spec.drop_unknown, relay: spec.relay }
    }

    fn none() -> Rules {
        let receiver = Receiver { udp_port: None, vxlan_port: None, ethernet: false, ..Receiver::default() };
        Rules {
            table: Table::Vlan(Box::new(VlanTable::new())),
            hops: Vec::new(),
            by_nfi: Box::default(),
            receiver,
            addresses: Vec::new(),
            drop_unknown: false,
            relay: None,
        }
    }

    /// The index of a next hop.
    #[inline(always)]
    pub(crate) fn hop(&self, nfi: Nfi) -> Option<usize> {
        usize::from(*self.by_nfi.get(usize::from(nfi.get()))?).checked_sub(1)
    }

    /// Aggregates to this address are for this switch.
    #[inline(always)]
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }
}
