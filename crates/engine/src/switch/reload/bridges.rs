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
            let stood: Vec<_> = before.into_iter().flat_map(|(_, _, places)| places).copied().collect();
            let places = place(&stood, &next, &members, spec.ports.len());
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
        self.with_bridges_of(old, |bridge, known, now, (place, gone)| {
            if !bridge.table.is(&known.table) {
                return bridge.table.adopt(&known.table, now, place);
            }
            bridge.table.forget(gone);
            // In one table, ports that stay keep their places.
            (0..bridge.places() as u16).filter(|port| place(*port).is_none()).for_each(|port| bridge.table.begin(port));
        });
    }

    /// Lets bridges adopt what those of `old` have learned meanwhile, and go on with their counters. No worker forwards by the old
    /// ones any more.
    pub(super) fn take_over(&self, old: &Topology) {
        self.with_bridges_of(old, |bridge, known, now, (place, gone)| {
            if Arc::ptr_eq(bridge, known) {
                return;
            }
            match bridge.table.is(&known.table) {
                // Until a moment ago, workers learned behind ports that have left.
                true => bridge.table.forget(gone),
                false => bridge.table.adopt(&known.table, now, place),
            }
            bridge.count_on_from(known, place);
        });
    }

    /// Calls `act` for each bridge with the one of `old` that has its name, the time, a function from the places of that one to
    /// those of this one: the same ports stand there, in the same VLANs; and the places whose ports do so no more.
    fn with_bridges_of(
        &self,
        old: &Topology,
        act: impl Fn(&Arc<Bridge>, &Arc<Bridge>, u32, (&dyn Fn(u16) -> Option<u16>, &[u16])),
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
            let stood = had.iter().zip(&moved).zip(0..);
            let gone: Vec<u16> =
                stood.filter(|((had, moved), _)| had.is_some() && moved.is_none()).map(|(_, place)| place).collect();
            let place = |place: u16| moved.get(usize::from(place)).copied().flatten();
            act(bridge, known, clock::seconds(), (&place, &gone));
        }
    }
}

/// Returns the places of a bridge's `members`: those that `stood` at one stay there, and the others come to places where none stood, or
/// behind all. `next` has the new index of each old port, and there are this many ports.
///
/// A place whose port leaves stays empty for this time: workers learn at it until they have the new bridge.
fn place(stood: &[Option<usize>], next: &[Option<usize>], members: &[usize], ports: usize) -> Places {
    let (mut is_member, mut stands) = (vec![false; ports], vec![false; ports]);
    members.iter().for_each(|&port| is_member[port] = true);
    let mut places: Places =
        stood.iter().map(|port| port.and_then(|port| next[port]).filter(|&port| is_member[port])).collect();
    places.iter().flatten().for_each(|&port| stands[port] = true);
    let mut new = members.iter().copied().filter(|&port| !stands[port]);
    let empty = places.iter_mut().zip(stood).filter(|(_, stood)| stood.is_none());
    empty.for_each(|(place, _)| *place = new.next());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_given_away_only_once_its_port_has_left() {
        // Of three ports, the second leaves, and two come.
        let next = [Some(0), None, Some(1)];
        let had = [Some(0), Some(1), None, Some(2)];
        let places = place(&had, &next, &[0, 1, 2, 3], 4);
        assert_eq!(places, [Some(0), None, Some(2), Some(1), Some(3)]);
        // Later, all ports are the same.
        let same: Vec<_> = (0..4).map(Some).collect();
        assert_eq!(place(&places, &same, &[0, 1, 2, 3], 4), places);
        let one_more: Vec<_> = (0..5).collect();
        assert_eq!(place(&places, &same, &one_more, 5), [Some(0), Some(4), Some(2), Some(1), Some(3)]);
        assert_eq!(place(&places, &same, &[0, 1], 4), [Some(0), None, None, Some(1)]);
        assert_eq!(place(&places, &same, &[0], 4), [Some(0)]);
    }
}
