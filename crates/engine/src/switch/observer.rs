//! Events that nobody tells of when they happen, as workers bring them about or many causes do: mappings that change, and addresses
//! that bridges learn. Looks at intervals find them.

use super::topology::Topology;
use crate::events::Events;
use api::event::EventKind;
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

/// Least time between two looks at addresses, in times of how long a look takes.
const REST: u32 = 20;

/// An address: bridge, address, VLAN.
type Address = (String, String, u16);

/// See the module.
#[derive(Default)]
pub(super) struct Observer {
    /// By queues, the physical one and the guest's: the reason why frames are not received in place, if they are not.
    mappings: BTreeMap<(String, String), Option<String>>,
    /// Ports of the addresses that were learned, while someone wants to know.
    addresses: Option<HashMap<Address, String>>,
    /// Time of the next look at them.
    due: Option<Instant>,
}

impl Observer {
    /// Looks what has changed, and tells of it.
    pub(super) fn look(&mut self, topology: &Topology, events: &Events) {
        self.look_at_mappings(topology, events);
        if !events.are_addresses_wanted() {
            self.addresses = None;
        } else if self.due.is_none_or(|due| Instant::now() >= due) {
            let began = Instant::now();
            self.look_at_addresses(topology, events);
            self.due = Some(Instant::now() + began.elapsed() * REST);
        }
    }

    fn look_at_mappings(&mut self, topology: &Topology, events: &Events) {
        let stats = topology.mapping_stats().into_iter();
        let now: BTreeMap<_, _> = stats.map(|mapping| ((mapping.from, mapping.to), mapping.reason)).collect();
        for ((from, to), _) in self.mappings.iter().filter(|(queues, _)| !now.contains_key(queues)) {
            events.tell(EventKind::MappingRemoved { from: from.clone(), to: to.clone() });
        }
        for (queues, reason) in now.iter().filter(|(queues, reason)| self.mappings.get(queues) != Some(reason)) {
            let ((from, to), reason) = (queues.clone(), reason.clone());
            events.tell(EventKind::MappingChanged { from, to, zero_copy: reason.is_none(), reason });
        }
        self.mappings = now;
    }

    /// Looks which addresses have come, moved and gone since the last look.
    pub(super) fn look_at_addresses(&mut self, topology: &Topology, events: &Events) {
        let learned = topology.macs().into_iter().filter(|entry| entry.age_seconds.is_some());
        let now: HashMap<_, _> = learned.map(|entry| ((entry.bridge, entry.mac, entry.vlan), entry.port)).collect();
        if let Some(had) = self.addresses.replace(now) {
            let kinds = differences(had, self.addresses.iter().flatten());
            if !kinds.is_empty() {
                events.tell_of_addresses(kinds);
            }
        }
    }
}

/// Returns the events that turn the addresses that there were into those of now.
fn differences<'n>(
    mut had: HashMap<Address, String>,
    now: impl Iterator<Item = (&'n Address, &'n String)>,
) -> Vec<EventKind> {
    let mut kinds = Vec::new();
    for (address, port) in now {
        let ((bridge, mac, vlan), port) = (address.clone(), port.clone());
        match had.remove(address) {
            None => kinds.push(EventKind::AddressLearned { bridge, mac, vlan, port }),
            Some(from) if from != port => kinds.push(EventKind::AddressMoved { bridge, mac, vlan, from, port }),
            Some(_) => {}
        }
    }
    let gone = had.into_iter();
    kinds.extend(gone.map(|((bridge, mac, vlan), port)| EventKind::AddressForgotten { bridge, mac, vlan, port }));
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(list: &[(&str, &str)]) -> HashMap<Address, String> {
        list.iter().map(|(mac, port)| (("br".into(), (*mac).into(), 7), (*port).into())).collect()
    }

    #[test]
    fn addresses_come_move_and_go() {
        let (bridge, vlan) = (|| "br".to_owned(), 7);
        let had = addresses(&[("same", "a"), ("moves", "a"), ("goes", "b")]);
        let now = addresses(&[("same", "a"), ("moves", "b"), ("comes", "c")]);
        let mut kinds = differences(had, now.iter());
        kinds.sort_by_key(|kind| format!("{kind:?}"));
        let expected = [
            EventKind::AddressForgotten { bridge: bridge(), mac: "goes".into(), vlan, port: "b".into() },
            EventKind::AddressLearned { bridge: bridge(), mac: "comes".into(), vlan, port: "c".into() },
            EventKind::AddressMoved { bridge: bridge(), mac: "moves".into(), vlan, from: "a".into(), port: "b".into() },
        ];
        assert_eq!(kinds, expected);
        assert!(differences(now.clone(), now.iter()).is_empty());
    }
}
