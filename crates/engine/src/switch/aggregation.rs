//! Control of packet aggregation, and its statistics.

use super::Switch;
use super::topology::Topology;
use crate::spec::NextHopSpec;
use crate::stage::aggregate::rules;
use crate::stats::{AggregationFlow, AggregationPort, AggregationStats, NextHopStats};
use paflow::outer::{Addresses, Carrier};
use paflow::table::Table;
use paflow::{AggregationRules, Nfi};

impl Switch {
    /// Lays flows over those of the specification, and replaces all that were laid before; they stay when the
    /// specification changes. NFI 0 stands for no next hop, as does one that the specification lacks.
    pub fn lay_aggregation_flows(&self, flows: Vec<AggregationFlow>) {
        let mut laid = self.inner.laid.lock().unwrap();
        laid.flows = flows;
        self.inner.rules.set(rules(laid.spec.as_ref(), &laid.flows));
    }

    /// Returns the aggregation table in force, by service chain.
    pub fn aggregation_flows(&self) -> Vec<AggregationFlow> {
        flows(&self.inner.rules.get())
    }
}

fn flows(rules: &AggregationRules) -> Vec<AggregationFlow> {
    let flow = |sc, nfi: Nfi| AggregationFlow { sc, nfi: nfi.get() };
    let mut flows: Vec<_> = match &rules.table {
        Table::Vlan(table) => table.entries().map(|(vid, nfi)| flow(vid.into(), nfi)).collect(),
        Table::Vni(table, _) => table.entries().map(|(vni, nfi)| flow(vni, nfi)).collect(),
    };
    flows.sort_unstable_by_key(|flow| flow.sc);
    flows
}

impl Topology {
    pub(super) fn aggregation_stats(&self, rules: &AggregationRules) -> Option<AggregationStats> {
        let spec = self.spec.aggregation.as_ref()?;
        let flows = flows(rules);
        let members = || self.layout.ports.iter().filter_map(|port| port.member());
        let next_hop = |hop: &NextHopSpec| {
            let mut stats = NextHopStats {
                nfi: hop.nfi,
                ip: match hop.route.carrier {
                    Carrier::Ethernet => None,
                    Carrier::Udp(tunnel) | Carrier::Vxlan { tunnel, .. } => Some(match tunnel.addresses {
                        Addresses::V4 { destination, .. } => destination.to_string(),
                        Addresses::V6 { destination, .. } => destination.to_string(),
                    }),
                },
                mac: hop.route.destination.to_string(),
                port: hop.port.clone(),
                chains: flows.iter().filter(|flow| flow.nfi == hop.nfi).count(),
                ..NextHopStats::default()
            };
            if let Some(nfi) = Nfi::new(hop.nfi) {
                for counters in members().flat_map(|member| member.traffic.iter()).map(|traffic| traffic.hop(nfi)) {
                    stats.aggregates += counters.aggregates.get();
                    stats.packets += counters.packets.get();
                }
            }
            stats
        };
        let port = |member: &crate::stage::aggregate::Member| {
            let mut stats = AggregationPort { port: member.port.to_string(), ..AggregationPort::default() };
            for traffic in member.traffic.iter() {
                traffic.received.add_to(&mut stats.received);
                traffic.sent.add_to(&mut stats.sent);
            }
            stats
        };
        Some(AggregationStats {
            service_chain_id: spec.chains.name().into(),
            mtu: spec.mtu,
            next_hops: spec.next_hops.iter().map(next_hop).collect(),
            ports: members().map(port).collect(),
            flows: flows.len(),
            relayed: members().map(|member| member.relay.taken()).sum(),
        })
    }
}
