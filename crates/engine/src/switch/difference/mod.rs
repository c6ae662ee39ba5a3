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

use super::layout::{Assignment, Pollers};
use crate::spec::{
    AggregationSpec, BridgeSpec, ExchangeMode, ExchangeSpec, MappingSpec, MirrorSpec, PortSpec, Sharing, Spec,
    WorkerSpec,
};
use fate::{Outcome, Why, named};
use std::collections::{BTreeMap, BTreeSet, HashSet};

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
    /// Returns the difference between `old` and `new`, each with its workers.
    pub(super) fn of((old, had): (&Spec, &Assignment), (new, has): (&Spec, &Assignment)) -> Difference {
        let comparison = Comparison { old, new, workers: [had, has] };
        let ports = comparison.ports();
        Difference {
            patches: comparison.patches(),
            bridges: comparison.bridges(&ports),
            mappings: comparison.mappings(),
            exchanges: comparison.exchanges(),
            mirrors: comparison.mirrors(),
            aggregation: comparison.aggregation(),
            workers: comparison.workers(&ports),
            ports,
        }
    }
}

/// Two specifications.
struct Comparison<'s> {
    old: &'s Spec,
    new: &'s Spec,
    /// The workers of the old one's queues, and of the new one's.
    workers: [&'s Assignment; 2],
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

    fn bridges(&self, ports: &Fates) -> Fates {
        let moved: HashSet<_> =
            self.staying(ports).filter(|(had, has)| had.vlan != has.vlan).map(|of| &of.1.name).collect();
        Fates::of(
            &self.old.bridges,
            &self.new.bridges,
            |bridge| &bridge.name,
            |had, bridge| {
                let BridgeSpec { name: _, ports, ageing, learned_limit, forwards_reserved, statics, flows } = bridge;
                let stays = |name: &&String| moved.contains(name) && had.ports.contains(name);
                Outcome::Stays(named(&[
                    ("ports", *ports != had.ports),
                    ("VLANs", !moved.is_empty() && ports.iter().any(|name| stays(&name))),
                    ("ageing", *ageing != had.ageing),
                    ("limit of learned addresses", *learned_limit != had.learned_limit),
                    ("reserved addresses", *forwards_reserved != had.forwards_reserved),
                    ("static addresses", *statics != had.statics),
                    ("flows", *flows != had.flows),
                ]))
            },
        )
    }

    /// Returns the ports that are in both specifications, as they were and as they are.
    fn staying(&self, ports: &Fates) -> impl Iterator<Item = (&PortSpec, &PortSpec)> {
        let of = |(new, fate): (usize, &Fate)| Some((&self.old.ports[fate.had()?], &self.new.ports[new]));
        ports.fates.iter().enumerate().filter_map(of)
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

    fn workers(&self, ports: &Fates) -> Fates {
        let changed = self.workers_of_changed(ports);
        let [had, wanted] =
            [self.old, self.new].map(|spec| spec.workers_or_default().into_iter().enumerate().collect::<Vec<_>>());
        Fates::of(
            &had,
            &wanted,
            |(index, _)| *index,
            |(_, before), (index, after)| match before.runs_like(after) {
                false => Outcome::Ends(worker_changes(before, after)),
                true => Outcome::Stays(named(&[("queues", changed.contains(index))])),
            },
        )
    }

    /// Returns the workers that poll or share other queues than before.
    fn workers_of_changed(&self, ports: &Fates) -> BTreeSet<usize> {
        let [had, has] = self.workers;
        let before = |port: usize| polled(&self.old.ports[port], &had[port]);
        let now = |port: usize| polled(&self.new.ports[port], &has[port]);
        let mut changed: BTreeSet<usize> = ports.gone.iter().flat_map(|&port| before(port).into_keys()).collect();
        for (port, fate) in ports.fates.iter().enumerate() {
            let old = fate.had();
            if old
                .is_some_and(|old| had[old] == has[port] && self.old.ports[old].sharing == self.new.ports[port].sharing)
            {
                continue;
            }
            let (before, now) = (old.map(before).unwrap_or_default(), now(port));
            changed.extend(before.keys().chain(now.keys()).filter(|worker| before.get(worker) != now.get(worker)));
        }
        changed
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

/// Returns the queues of a port that each worker polls, or shares with others.
fn polled(port: &PortSpec, pollers: &Pollers) -> BTreeMap<usize, Vec<usize>> {
    let shared = port.sharing.as_ref().filter(|sharing| sharing.way != Sharing::Rss);
    let others = shared.into_iter().flat_map(|sharing| &sharing.workers);
    let all = others.map(|&worker| (worker, (0..pollers.queues()).collect()));
    let mut polled: BTreeMap<_, _> = all.collect();
    for worker in pollers.workers() {
        polled.entry(worker).or_insert_with(|| pollers.polled_by(worker).collect());
    }
    polled
}
