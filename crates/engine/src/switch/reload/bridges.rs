//! Bridges of the next topology. They go on with what those before have learned.

use crate::clock;
use crate::forward::bridge::Bridge;
use crate::forward::flows::Datapath;
use crate::forward::mac_table::{Key, MacTable};
use crate::spec::{BridgeSpec, Spec, StaticEntry, Vlan};
use crate::switch::difference::{Fate, Fates};
use crate::switch::error::Error;
use crate::switch::layout::Places;
use crate::switch::topology::Topology;
use foldhash::HashMap;
use std::sync::Arc;

impl Topology {
    /// Returns the bridges of `spec`, with the ports at their places. These are the fates of its bridges and of its ports.
    pub(super) fn next_bridges(
        &self,
        spec: &Spec,
        (bridges, ports): (&Fates, &Fates),
        datapath: &Arc<Datapath>,
    ) -> Result<Vec<(Arc<Bridge>, Places)>, Error> {
        let had: Vec<_> = self.bridges().collect();
        let indices: HashMap<_, _> = spec.ports.iter().enumerate().map(|(index, port)| (&port.name, index)).collect();
        let mut next = vec![None; self.spec.ports.len()];
        for (index, fate) in ports.fates.iter().enumerate() {
            fate.had().into_iter().for_each(|old| next[old] = Some(index));
        }
        let bridge = |(wanted, fate): (&BridgeSpec, &Fate)| {
            let members: Vec<usize> = wanted.ports.iter().filter_map(|name| indices.get(name).copied()).collect();
            let before = fate.goes_on().map(|index| had[index]);
            let stay = before.into_iter().flat_map(|(_, _, places)| places).map(|port| next[(*port)?]);
            let places = place(stay.collect(), &members, spec.ports.len());
            if let Some((_, bridge, _)) = before.filter(|_| fate.is_kept().is_some()) {
                return Ok((bridge.clone(), places));
            }
            // A table goes on as long as it has room; a new one is as large as the bridge.
            let table = before
                .filter(|(before, bridge, _)| has_same_table(before, wanted) && places.len() <= bridge.table.room());
            let (table, places) = match table {
                Some((_, bridge, _)) => (bridge.table.clone(), places),
                None => (new_table(wanted)?, members.into_iter().map(Some).collect()),
            };
            let vlans: Vec<Option<&Vlan>> = places.iter().map(|port| port.map(|port| &spec.ports[port].vlan)).collect();
            let mut bridge = Bridge::of(table, &vlans);
            bridge.forwards_reserved = wanted.forwards_reserved;
            bridge.flows = wanted.flows.map(|_| datapath.number(&wanted.ports));
            Ok((Arc::new(bridge), places))
        };
        spec.bridges.iter().zip(&bridges.fates).map(bridge).collect()
    }

    /// Lets bridges adopt what those of `old` have learned about ports that are in both. Workers still forward by the old ones.
    pub(super) fn adopt(&self, old: &Topology) {
        self.with_bridges_of(old, |bridge, known, now, place| {
            if !bridge.table.is(&known.table) {
                return bridge.table.adopt(&known.table, now, place);
            }
            bridge.table.sweep(now, |port| place(port).is_none());
            // In one table, ports that stay keep their places.
            (0..bridge.places() as u16).filter(|port| place(*port).is_none()).for_each(|port| bridge.table.begin(port));
        });
    }

    /// Lets bridges adopt what those of `old` have learned meanwhile, and go on with their counters. No worker forwards by the old
    /// ones any more.
    pub(super) fn take_over(&self, old: &Topology) {
        self.with_bridges_of(old, |bridge, known, now, place| {
            if Arc::ptr_eq(bridge, known) {
                return;
            }
            if !bridge.table.is(&known.table) {
                bridge.table.adopt(&known.table, now, place);
            }
            bridge.count_on_from(known, place);
        });
    }

    /// Calls `act` for each bridge with the one of `old` that has its name, the time, and a function from the places of that one to
    /// those of this one: the same ports stand there, in the same VLANs.
    fn with_bridges_of(
        &self,
        old: &Topology,
        act: impl Fn(&Arc<Bridge>, &Arc<Bridge>, u32, &dyn Fn(u16) -> Option<u16>),
    ) {
        let had: HashMap<_, _> = old.bridges().map(|(spec, bridge, had)| (&spec.name, (bridge, had))).collect();
        for (spec, bridge, places) in self.bridges() {
            let Some((known, had)) = had.get(&spec.name) else { continue };
            let place = |port: &Option<usize>| {
                let had = (*port)?;
                let port = self.layout.index(old.layout.ports[had].id)?;
                let place = self.layout.place_of(port).filter(|place| places.get(*place) == Some(&Some(port)))?;
                (self.spec.ports[port].vlan == old.spec.ports[had].vlan).then_some(place as u16)
            };
            let moved: Vec<Option<u16>> = had.iter().map(place).collect();
            let place = |place: u16| moved.get(usize::from(place)).copied().flatten();
            act(bridge, known, clock::seconds(), &place);
        }
    }
}

/// Returns the places of a bridge's `members`: those that stand at one stay there, and the others come where none stands, or behind all.
/// There are this many ports.
fn place(mut places: Places, members: &[usize], ports: usize) -> Places {
    let (mut is_member, mut stands) = (vec![false; ports], vec![false; ports]);
    members.iter().for_each(|&port| is_member[port] = true);
    for place in &mut places {
        *place = place.filter(|&port| is_member[port]);
        place.iter().for_each(|&port| stands[port] = true);
    }
    let mut new = members.iter().copied().filter(|&port| !stands[port]);
    places.iter_mut().filter(|place| place.is_none()).for_each(|place| *place = new.next());
    places.extend(new.map(Some));
    while places.last() == Some(&None) {
        places.pop();
    }
    places
}

/// Reports whether a bridge can go on with the table of the one before.
fn has_same_table(before: &BridgeSpec, wanted: &BridgeSpec) -> bool {
    let BridgeSpec { name: _, ports: _, ageing, learned_limit, forwards_reserved: _, statics, flows } = wanted;
    // Ports have numbers by their places where flows are.
    let has_flows = flows.is_some() || before.flows.is_some();
    !has_flows && (ageing, learned_limit, statics) == (&before.ageing, &before.learned_limit, &before.statics)
}

/// Returns a table for a bridge whose ports stand one behind the other.
fn new_table(wanted: &BridgeSpec) -> Result<MacTable, Error> {
    let seconds = u32::try_from(wanted.ageing.as_secs()).unwrap_or(u32::MAX / 2);
    let port = |name: &String| wanted.ports.iter().position(|port| port == name).map(|index| index as u16);
    let place = |entry: &StaticEntry| Some((Key::of(entry.mac, entry.vlan), port(&entry.port)?));
    let statics: Vec<_> = wanted.statics.iter().filter_map(place).collect();
    MacTable::new(wanted.ports.len(), wanted.learned_limit, seconds, &statics)
        .map_err(|error| Error::Statics(wanted.name.clone(), error))
}
