//! The difference of two specifications: the fate of each part of either. A reload makes this difference and no other, and its
//! report is derived from it.

mod fate;
mod port;
mod report;
#[cfg(test)]
mod tests;

pub(super) use fate::{Fate, Fates};
pub(super) use port::reopens;
#[cfg(test)]
pub(super) use report::mirror_name;
pub(super) use report::{exchange_name, mapping_name};

use super::layout::assignment;
use crate::spec::{
    AggregationSpec, BridgeSpec, ExchangeMode, ExchangeSpec, MappingSpec, MirrorSpec, Sharing, Spec, Vlan, WorkerSpec,
};
use fate::{Outcome, Why, named};
use std::collections::{HashMap, HashSet};

/// The difference of two specifications.
pub(super) struct Difference {
    pub(super) ports: Fates,
    pub(super) patches: Fates,
    pub(super) bridges: Fates,
    pub(super) mappings: Fates,
    pub(super) exchanges: Fates,
    pub(super) mirrors: Fates,
    /// One part or none.
    pub(super) aggregation: Fates,
    pub(super) workers: Fates,
}

impl Difference {
    /// Returns the difference between `old` and `new`.
    pub(super) fn of(old: &Spec, new: &Spec) -> Difference {
        let comparison = Comparison { old, new };
        Difference {
            ports: comparison.ports(),
            patches: comparison.patches(),
            bridges: comparison.bridges(),
            mappings: comparison.mappings(),
            exchanges: comparison.exchanges(),
            mirrors: comparison.mirrors(),
            aggregation: comparison.aggregation(),
            workers: comparison.workers(),
        }
    }
}

/// Two specifications.
struct Comparison<'s> {
    old: &'s Spec,
    new: &'s Spec,
}

impl Comparison<'_> {
    fn patches(&self) -> Fates {
        let ends = |[a, b]: &[String; 2]| if a < b { [a.clone(), b.clone()] } else { [b.clone(), a.clone()] };
        Fates::of(&self.old.patches, &self.new.patches, ends, |_, _| Outcome::Stays(Why::new()))
    }

    fn exchanges(&self) -> Fates {
        let compare = |had, exchange| Outcome::ends_if(exchange_changes(had, exchange));
        Fates::of(&self.old.exchanges, &self.new.exchanges, |exchange| &exchange.ports, compare)
    }

    fn mirrors(&self) -> Fates {
        let compare = |had, mirror| Outcome::Stays(mirror_changes(had, mirror));
        Fates::of(&self.old.mirrors, &self.new.mirrors, |mirror| (&mirror.from, &mirror.to), compare)
    }

    fn aggregation(&self) -> Fates {
        let [old, new] = [self.old, self.new].map(|spec| spec.aggregation.as_slice());
        Fates::of(old, new, |_| (), |had, wanted| Outcome::Stays(aggregation_changes(had, wanted)))
    }

    fn bridges(&self) -> Fates {
        let [old, new] = [self.old, self.new]
            .map(|spec| -> HashMap<_, _> { spec.ports.iter().map(|port| (&port.name, &port.vlan)).collect() });
        let vlans = |names: &HashMap<&String, &Vlan>, name| names.get(name).map(|vlan| (*vlan).clone());
        Fates::of(
            &self.old.bridges,
            &self.new.bridges,
            |bridge| &bridge.name,
            |had, bridge| {
                let BridgeSpec { name: _, ports, ageing, learned_limit, forwards_reserved, statics, flows } = bridge;
                let members: HashSet<_> = ports.iter().collect();
                let stays = had.ports.iter().filter(|name| members.contains(name));
                let moved = stays.into_iter().any(|name| vlans(&old, name) != vlans(&new, name));
                Outcome::Stays(named(&[
                    ("ports", *ports != had.ports),
                    ("VLANs", moved),
                    ("ageing", *ageing != had.ageing),
                    ("limit of learned addresses", *learned_limit != had.learned_limit),
                    ("reserved addresses", *forwards_reserved != had.forwards_reserved),
                    ("static addresses", *statics != had.statics),
                    ("flows", *flows != had.flows),
                ]))
            },
        )
    }

    fn mappings(&self) -> Fates {
        Fates::of(
            &self.old.mappings,
            &self.new.mappings,
            |mapping| (&mapping.from, &mapping.to),
            |had, mapping| match self.why_new(had, mapping) {
                why if why.is_empty() => Outcome::Stays(named(&[("tenancy", mapping.tenancy != had.tenancy)])),
                why => Outcome::Ends(why),
            },
        )
    }

    /// Returns why a mapping cannot stay as it was.
    fn why_new(&self, had: &MappingSpec, mapping: &MappingSpec) -> Why {
        named(&[
            ("ends", (&had.from, &had.to) != (&mapping.from, &mapping.to)),
            ("queues", had.pairs(self.old) != mapping.pairs(self.new)),
            ("mode", mapping.pass_through != had.pass_through),
            ("copy-break", mapping.copy_break != had.copy_break),
        ])
    }

    fn workers(&self) -> Fates {
        let [had, wanted] = [self.old, self.new].map(|spec| {
            let workers = spec.workers_or_default().into_iter().zip(polled(spec)).enumerate();
            workers.map(|(index, (worker, queues))| (index, worker, queues)).collect::<Vec<_>>()
        });
        Fates::of(
            &had,
            &wanted,
            |(index, ..)| *index,
            |(_, before, had), (_, after, polls)| match before.runs_like(after) {
                false => Outcome::Ends(worker_changes(before, after)),
                true => Outcome::Stays(named(&[("queues", had != polls)])),
            },
        )
    }
}

fn exchange_changes(had: &ExchangeSpec, exchange: &ExchangeSpec) -> Why {
    let changes = had.mode.name() != exchange.mode.name();
    let part = match exchange.mode {
        ExchangeMode::Group { .. } => "buffers",
        ExchangeMode::Zcopy { .. } => "device",
    };
    named(&[
        ("mode", changes),
        (part, !changes && had.mode != exchange.mode),
        ("threshold", had.threshold != exchange.threshold),
    ])
}

fn mirror_changes(had: &MirrorSpec, mirror: &MirrorSpec) -> Why {
    named(&[("direction", mirror.direction != had.direction), ("point", mirror.at != had.at)])
}

fn aggregation_changes(had: &AggregationSpec, wanted: &AggregationSpec) -> Why {
    let rest = |spec: &AggregationSpec| AggregationSpec { next_hops: vec![], flows: vec![], ..spec.clone() };
    named(&[
        ("next hops", had.next_hops != wanted.next_hops),
        ("flows", had.flows != wanted.flows),
        ("settings", rest(had) != rest(wanted)),
    ])
}

fn worker_changes(had: &WorkerSpec, wanted: &WorkerSpec) -> Why {
    named(&[
        ("cpu", had.cpu != wanted.cpu),
        ("idle", had.idle != wanted.idle),
        ("patience", had.patience != wanted.patience),
        ("turn", had.turn != wanted.turn),
    ])
}

/// Returns the queues that each worker polls, or shares with others.
fn polled(spec: &Spec) -> Vec<Vec<(&str, usize)>> {
    let mut polled = vec![Vec::new(); spec.workers_or_default().len()];
    for (port, workers) in spec.ports.iter().zip(assignment(spec)) {
        let shared = port.sharing.as_ref().filter(|sharing| sharing.way != Sharing::Rss);
        for (queue, poller) in workers.iter().enumerate() {
            let others = shared.iter().flat_map(|sharing| &sharing.workers);
            std::iter::once(poller).chain(others).for_each(|&worker| polled[worker].push((port.name.as_str(), queue)));
        }
    }
    polled.iter_mut().for_each(|queues| {
        queues.sort_unstable();
        queues.dedup();
    });
    polled
}
