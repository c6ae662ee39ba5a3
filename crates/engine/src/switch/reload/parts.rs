//! Fates of the next topology. Those that stay are the very parts of the one before.

use crate::clock;
use crate::forward::bridge::Bridge;
use crate::forward::flows::Datapath;
use crate::forward::mac_table::Key;
use crate::port::Exchange;
use crate::spec::{BridgeSpec, ExchangeSpec, Spec, StaticEntry, Vlan};
use crate::switch::difference::{Fate, Fates};
use crate::switch::error::Error;
use crate::switch::mapping::Mapping;
use crate::switch::tenancy;
use crate::switch::topology::Topology;
use std::collections::HashMap;
use std::sync::Arc;

impl Topology {
    /// Returns the bridges of `spec`, whose fates these are.
    pub(super) fn next_bridges(
        &self,
        spec: &Spec,
        parts: &Fates,
        datapath: &Arc<Datapath>,
    ) -> Result<Vec<Arc<Bridge>>, Error> {
        let had: Vec<_> = self.bridges().map(|(_, bridge, _)| bridge).collect();
        let bridge = |(wanted, fate): (&BridgeSpec, &Fate)| match fate.is_kept() {
            Some(index) => Ok(had[index].clone()),
            None => new_bridge(wanted, spec, datapath).map(Arc::new),
        };
        spec.bridges.iter().zip(&parts.fates).map(bridge).collect()
    }

    /// Returns the mappings of `spec`, whose fates these are.
    pub(super) fn next_mappings(&self, spec: &Spec, parts: &Fates) -> Vec<Arc<Mapping>> {
        let mut next = Vec::new();
        for (wanted, fate) in spec.mappings.iter().zip(&parts.fates) {
            if let Some(index) = fate.goes_on() {
                let had = &self.spec.mappings[index];
                next.extend(self.mappings.iter().filter(|mapping| mapping.is_of(had)).cloned());
            } else {
                let mapping = |queues| Arc::new(Mapping::new(wanted.clone(), tenancy::judge(spec, wanted), queues));
                next.extend(wanted.pairs(spec).into_iter().map(mapping));
            }
        }
        next
    }

    /// Returns the groups of `spec`; those that are as they were stay.
    pub(super) fn next_exchanges(&self, spec: &Spec) -> Vec<Arc<Exchange>> {
        let exchange = |wanted: &ExchangeSpec| {
            let known = self.exchanges.iter().find(|had| had.spec() == wanted);
            known.cloned().unwrap_or_else(|| Arc::new(Exchange::new(wanted.clone())))
        };
        spec.exchanges.iter().map(exchange).collect()
    }

    /// Lets bridges adopt what those of `old` have learned about ports that are in both. Workers still forward by the old ones.
    pub(super) fn adopt(&self, old: &Topology) {
        self.with_bridges_of(old, |bridge, known, now, place| match Arc::ptr_eq(bridge, known) {
            true => bridge.table.sweep(now, |port| place(port).is_none()),
            false => bridge.table.adopt(&known.table, now, place),
        });
    }

    /// Lets bridges adopt what those of `old` have learned meanwhile, and go on with their counters. No worker forwards by the old
    /// ones any more.
    pub(super) fn take_over(&self, old: &Topology) {
        self.with_bridges_of(old, |bridge, known, now, place| {
            if !Arc::ptr_eq(bridge, known) {
                bridge.table.adopt(&known.table, now, place);
                bridge.count_on_from(known, place);
            }
        });
    }

    /// Calls `act` for each bridge with the one of `old` that has its name, the time, and a function from the ports of that one to
    /// those of this one: they are the same ports, in the same VLANs.
    fn with_bridges_of(
        &self,
        old: &Topology,
        act: impl Fn(&Arc<Bridge>, &Arc<Bridge>, u32, &dyn Fn(u16) -> Option<u16>),
    ) {
        let had: HashMap<_, _> = old.bridges().map(|(spec, bridge, had)| (&spec.name, (bridge, had))).collect();
        for (spec, bridge, members) in self.bridges() {
            let Some((known, had)) = had.get(&spec.name) else { continue };
            let places: HashMap<u64, usize> =
                (0..).zip(members).map(|(place, &port)| (self.layout.ports[port].id, place)).collect();
            let place = |port: u16| {
                let port = had[usize::from(port)];
                let place = *places.get(&old.layout.ports[port].id)?;
                (self.spec.ports[members[place]].vlan == old.spec.ports[port].vlan).then_some(place as u16)
            };
            act(bridge, known, clock::seconds(), &place);
        }
    }
}

/// Returns a bridge that has learned nothing.
fn new_bridge(wanted: &BridgeSpec, spec: &Spec, datapath: &Arc<Datapath>) -> Result<Bridge, Error> {
    let vlans: HashMap<_, _> = spec.ports.iter().map(|port| (&port.name, &port.vlan)).collect();
    let vlans: Vec<Vlan> =
        wanted.ports.iter().map(|name| vlans.get(name).copied().cloned().unwrap_or_default()).collect();
    let seconds = u32::try_from(wanted.ageing.as_secs()).unwrap_or(u32::MAX / 2);
    let port = |name: &String| wanted.ports.iter().position(|port| port == name).map(|index| index as u16);
    let place = |entry: &StaticEntry| Some((Key::of(entry.mac, entry.vlan), port(&entry.port)?));
    let statics: Vec<_> = wanted.statics.iter().filter_map(place).collect();
    let mut bridge = Bridge::new(&vlans, wanted.learned_limit, seconds, &statics)
        .map_err(|error| Error::Statics(wanted.name.clone(), error))?;
    bridge.forwards_reserved = wanted.forwards_reserved;
    bridge.flows = wanted.flows.map(|_| datapath.number(&wanted.ports));
    Ok(bridge)
}
