//! The actions that turn one specification into another. A reload takes these actions and no others, and reports them.

use super::layout::assignment;
use crate::reload::{Action, Step, Subject};
use crate::spec::{
    AggregationSpec, BridgeSpec, Driver, ExchangeMode, ExchangeSpec, MappingSpec, MirrorSpec, PortSpec, Sharing, Spec,
    WorkerSpec,
};

/// Returns the actions that turn `old` into `new`: every part of either is in one action.
pub(super) fn actions(old: &Spec, new: &Spec) -> Vec<Action> {
    let reload = Reload { old, new };
    let mut actions = reload.ports();
    actions.extend(reload.patches());
    actions.extend(reload.bridges());
    actions.extend(reload.mappings());
    actions.extend(reload.exchanges());
    actions.extend(reload.mirrors());
    actions.extend(reload.aggregation());
    actions.extend(reload.workers());
    actions
}

/// Returns the step taken on this part.
pub(super) fn step(actions: &[Action], subject: Subject, name: &str) -> Option<Step> {
    actions.iter().find(|action| action.subject == subject && action.name == name).map(|action| action.step)
}

/// Returns the name of a mapping.
pub(super) fn mapping_name(mapping: &MappingSpec) -> String {
    format!("{} -> {}", mapping.from, mapping.to)
}

/// Returns the name of an exchange.
pub(super) fn exchange_name(exchange: &ExchangeSpec) -> String {
    exchange.ports.join(", ")
}

/// Returns the name of a mirror.
pub(super) fn mirror_name(mirror: &MirrorSpec) -> String {
    format!("{} -> {}", mirror.from.join(", "), mirror.to)
}

struct Reload<'s> {
    old: &'s Spec,
    new: &'s Spec,
}

impl Reload<'_> {
    fn ports(&self) -> Vec<Action> {
        let action = |port: &PortSpec| match self.old.ports.iter().find(|had| had.name == port.name) {
            None => Action::new(Subject::Port, &port.name, Step::Added, vec![]),
            Some(had) => self.known_port(had, port),
        };
        let gone = self.old.ports.iter().filter(|had| self.new.ports.iter().all(|port| port.name != had.name));
        let gone = gone.map(|had| Action::new(Subject::Port, &had.name, Step::Removed, vec![]));
        self.new.ports.iter().map(action).chain(gone).collect()
    }

    fn known_port(&self, had: &PortSpec, port: &PortSpec) -> Action {
        let (mut reopening, mut changes) = (reopening(had, port), changes(had, port));
        if self.is_remapped(&port.name) {
            let why = if self.stays_physical(&port.name) { &mut changes } else { &mut reopening };
            why.push("mapping".into());
        }
        let exchange =
            |spec: &Spec| spec.exchanges.iter().find(|exchange| exchange.ports.contains(&port.name)).cloned();
        if exchange(self.old) != exchange(self.new) {
            reopening.push("exchange".into());
        }
        if reopening.is_empty() {
            return Action::of_known(Subject::Port, &port.name, changes);
        }
        Action::new(Subject::Port, &port.name, Step::Reopened, reopening)
    }

    /// Reports whether a mapping of a port's queues is new, gone, or another one.
    fn is_remapped(&self, port: &str) -> bool {
        let [before, after]: [Vec<_>; 2] = [self.old, self.new].map(|spec| mappings_of(spec, port).collect());
        let stays = |after: &&MappingSpec| before.iter().any(|before| self.why_new(before, after).is_empty());
        before.len() != after.len() || !after.iter().all(stays)
    }

    /// Reports whether a physical port is mapped before and after. Only its first mapping, or the loss of its last one,
    /// changes what it negotiates with its peer.
    fn stays_physical(&self, port: &str) -> bool {
        [self.old, self.new].iter().all(|spec| spec.mappings.iter().any(|mapping| mapping.from.port == port))
    }

    /// Returns why a mapping cannot stay as it was.
    fn why_new(&self, had: &MappingSpec, mapping: &MappingSpec) -> Vec<String> {
        named(&[
            ("ends", (&had.from, &had.to) != (&mapping.from, &mapping.to)),
            ("queues", had.pairs(self.old) != mapping.pairs(self.new)),
            ("mode", mapping.pass_through != had.pass_through),
            ("copy-break", mapping.copy_break != had.copy_break),
        ])
    }

    fn patches(&self) -> Vec<Action> {
        let has = |spec: &Spec, pair: &[String; 2]| {
            spec.patches.iter().any(|other| other == pair || (other[0] == pair[1] && other[1] == pair[0]))
        };
        let action = |pair: &[String; 2], step| Action::new(Subject::Patch, pair.join(" - "), step, vec![]);
        let wanted = self.new.patches.iter();
        let wanted = wanted
            .map(|pair| action(pair, if has(self.old, pair) { Step::Kept } else { Step::Added }))
            .collect::<Vec<_>>();
        let gone = self.old.patches.iter().filter(|pair| !has(self.new, pair)).map(|pair| action(pair, Step::Removed));
        wanted.into_iter().chain(gone).collect()
    }

    fn bridges(&self) -> Vec<Action> {
        let action = |bridge: &BridgeSpec| match self.old.bridges.iter().find(|had| had.name == bridge.name) {
            None => Action::new(Subject::Bridge, &bridge.name, Step::Added, vec![]),
            Some(had) => Action::of_known(Subject::Bridge, &bridge.name, self.bridge_changes(had, bridge)),
        };
        let gone = self.old.bridges.iter().filter(|had| self.new.bridges.iter().all(|bridge| bridge.name != had.name));
        let gone = gone.map(|had| Action::new(Subject::Bridge, &had.name, Step::Removed, vec![]));
        self.new.bridges.iter().map(action).chain(gone).collect()
    }

    fn bridge_changes(&self, had: &BridgeSpec, bridge: &BridgeSpec) -> Vec<String> {
        let BridgeSpec { name: _, ports, ageing, learned_limit, forwards_reserved, statics, flows } = bridge;
        let vlan = |spec: &Spec, name: &String| spec.ports.iter().find(|p| p.name == *name).map(|p| p.vlan.clone());
        let vlans = had.ports.iter().filter(|name| ports.contains(name));
        named(&[
            ("ports", *ports != had.ports),
            ("VLANs", vlans.into_iter().any(|name| vlan(self.old, name) != vlan(self.new, name))),
            ("ageing", *ageing != had.ageing),
            ("limit of learned addresses", *learned_limit != had.learned_limit),
            ("reserved addresses", *forwards_reserved != had.forwards_reserved),
            ("static addresses", *statics != had.statics),
            ("flows", *flows != had.flows),
        ])
    }

    fn mappings(&self) -> Vec<Action> {
        let same = |a: &MappingSpec, b: &MappingSpec| (&a.from, &a.to) == (&b.from, &b.to);
        let action = |mapping: &MappingSpec| {
            let name = mapping_name(mapping);
            let Some(had) = self.old.mappings.iter().find(|had| same(had, mapping)) else {
                return Action::new(Subject::Mapping, name, Step::Added, vec![]);
            };
            let why = self.why_new(had, mapping);
            if why.is_empty() {
                return Action::of_known(Subject::Mapping, name, named(&[("tenancy", mapping.tenancy != had.tenancy)]));
            }
            Action::new(Subject::Mapping, name, Step::Reopened, why)
        };
        let gone = self.old.mappings.iter().filter(|had| !self.new.mappings.iter().any(|mapping| same(had, mapping)));
        let gone = gone.map(|had| Action::new(Subject::Mapping, mapping_name(had), Step::Removed, vec![]));
        self.new.mappings.iter().map(action).chain(gone).collect()
    }

    fn exchanges(&self) -> Vec<Action> {
        let action = |exchange: &ExchangeSpec| {
            let name = exchange_name(exchange);
            let Some(had) = self.old.exchanges.iter().find(|had| had.ports == exchange.ports) else {
                return Action::new(Subject::Exchange, name, Step::Added, vec![]);
            };
            let changes = had.mode.name() != exchange.mode.name();
            let what = match exchange.mode {
                ExchangeMode::Group { .. } => "buffers",
                ExchangeMode::Zcopy { .. } => "device",
            };
            let why = named(&[
                ("mode", changes),
                (what, !changes && had.mode != exchange.mode),
                ("threshold", had.threshold != exchange.threshold),
            ]);
            let step = if why.is_empty() { Step::Kept } else { Step::Reopened };
            Action::new(Subject::Exchange, name, step, why)
        };
        let is_gone = |had: &&ExchangeSpec| self.new.exchanges.iter().all(|exchange| exchange.ports != had.ports);
        let gone = self.old.exchanges.iter().filter(is_gone);
        let gone = gone.map(|had| Action::new(Subject::Exchange, exchange_name(had), Step::Removed, vec![]));
        self.new.exchanges.iter().map(action).chain(gone).collect()
    }

    fn mirrors(&self) -> Vec<Action> {
        let same = |a: &MirrorSpec, b: &MirrorSpec| (&a.from, &a.to) == (&b.from, &b.to);
        let action = |mirror: &MirrorSpec| match self.old.mirrors.iter().find(|had| same(had, mirror)) {
            None => Action::new(Subject::Mirror, mirror_name(mirror), Step::Added, vec![]),
            Some(had) => {
                let why = named(&[("direction", mirror.direction != had.direction), ("point", mirror.at != had.at)]);
                Action::of_known(Subject::Mirror, mirror_name(mirror), why)
            }
        };
        let gone = self.old.mirrors.iter().filter(|had| !self.new.mirrors.iter().any(|mirror| same(had, mirror)));
        let gone = gone.map(|had| Action::new(Subject::Mirror, mirror_name(had), Step::Removed, vec![]));
        self.new.mirrors.iter().map(action).chain(gone).collect()
    }

    fn aggregation(&self) -> Option<Action> {
        let step = match (&self.old.aggregation, &self.new.aggregation) {
            (None, None) => return None,
            (None, Some(_)) => Step::Added,
            (Some(_), None) => Step::Removed,
            (Some(had), Some(wanted)) => {
                return Some(Action::of_known(Subject::Aggregation, "", aggregation_changes(had, wanted)));
            }
        };
        Some(Action::new(Subject::Aggregation, "", step, vec![]))
    }

    fn workers(&self) -> Vec<Action> {
        let [had, wanted] = [self.old, self.new]
            .map(|spec| spec.workers_or_default().into_iter().zip(polled(spec)).collect::<Vec<_>>());
        let of = |index: usize| {
            let why = match (had.get(index), wanted.get(index)) {
                (Some((before, _)), Some((after, _))) if !before.runs_like(after) => {
                    return Action::new(
                        Subject::Worker,
                        index.to_string(),
                        Step::Reopened,
                        worker_changes(before, after),
                    );
                }
                (Some((_, before)), Some((_, after))) => named(&[("queues", before != after)]),
                (None, _) => return Action::new(Subject::Worker, index.to_string(), Step::Added, vec![]),
                (_, None) => return Action::new(Subject::Worker, index.to_string(), Step::Removed, vec![]),
            };
            Action::of_known(Subject::Worker, index.to_string(), why)
        };
        (0..had.len().max(wanted.len())).map(of).collect()
    }
}

/// Returns the names whose condition holds.
fn named(which: &[(&str, bool)]) -> Vec<String> {
    which.iter().filter(|(_, holds)| *holds).map(|(name, _)| (*name).to_owned()).collect()
}

/// Returns the differences, apart from its mappings, for which a port has to be reopened.
fn reopening(had: &PortSpec, port: &PortSpec) -> Vec<String> {
    // All fields are named, so that a new one cannot be forgotten.
    let PortSpec {
        name: _,
        driver,
        vlan: _,
        record: _,
        fault,
        aggregate,
        vxlan,
        sharing: _,
        staged,
        #[cfg(feature = "analysis")]
        analysis,
    } = port;
    let kind = |driver: &Driver| driver.name();
    named(&[
        ("driver", kind(driver) != kind(&had.driver)),
        ("options of its driver", kind(driver) == kind(&had.driver) && *driver != had.driver),
        ("fault", *fault != had.fault),
        ("aggregate", *aggregate != had.aggregate),
        ("vxlan", *vxlan != had.vxlan),
        ("staged", *staged != had.staged),
        #[cfg(feature = "analysis")]
        ("analysis", *analysis != had.analysis),
    ])
}

/// Returns the differences that can be applied while a port is open.
fn changes(had: &PortSpec, port: &PortSpec) -> Vec<String> {
    named(&[
        ("VLANs", port.vlan != had.vlan),
        ("record-to", port.record != had.record),
        ("rx-sharing", port.sharing != had.sharing),
    ])
}

fn aggregation_changes(had: &AggregationSpec, wanted: &AggregationSpec) -> Vec<String> {
    let rest = |spec: &AggregationSpec| AggregationSpec { next_hops: vec![], flows: vec![], ..spec.clone() };
    named(&[
        ("next hops", had.next_hops != wanted.next_hops),
        ("flows", had.flows != wanted.flows),
        ("settings", rest(had) != rest(wanted)),
    ])
}

fn worker_changes(had: &WorkerSpec, wanted: &WorkerSpec) -> Vec<String> {
    named(&[
        ("cpu", had.cpu != wanted.cpu),
        ("idle", had.idle != wanted.idle),
        ("patience", had.patience != wanted.patience),
        ("turn", had.turn != wanted.turn),
    ])
}

/// Returns the mappings that have queues of this port as an end.
fn mappings_of<'s>(spec: &'s Spec, port: &str) -> impl Iterator<Item = &'s MappingSpec> {
    spec.mappings.iter().filter(move |mapping| mapping.from.port == port || mapping.to.port == port)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{vhost_user, virtio_user};
    use crate::spec::{Mode, PortQueues, QueueSizes, Tenancy};

    /// Returns a specification of a physical port and some guests, with these mappings: queue, guest, and copy-break.
    fn spec(mappings: &[(usize, &str, u32)]) -> Spec {
        let nic = Driver::VirtioUser(virtio_user::Settings {
            socket: "nic.sock".into(),
            mode: Mode::Client,
            queues: 3,
            queue_sizes: QueueSizes::from(64),
            packed: false,
        });
        let guest = |name: &str| {
            let settings = vhost_user::Settings { queues: Some(1), ..vhost_user::Settings::at(name) };
            PortSpec::new(name, Driver::VhostUser(settings))
        };
        let mapping = |&(queue, to, copy_break): &(usize, &str, u32)| MappingSpec {
            from: PortQueues::one("wan", queue),
            to: PortQueues::all(to),
            pass_through: true,
            copy_break,
            tenancy: Tenancy::Trust(vec![]),
        };
        Spec {
            ports: vec![PortSpec::new("wan", nic), guest("fw"), guest("dpi")],
            mappings: mappings.iter().map(mapping).collect(),
            ..Spec::default()
        }
    }

    /// Returns the actions on ports and mappings that are not kept, and what they are taken for.
    fn taken(old: &Spec, new: &Spec) -> Vec<String> {
        let of_interest = |action: &&Action| matches!(action.subject, Subject::Port | Subject::Mapping);
        let actions = actions(old, new);
        actions.iter().filter(of_interest).filter(|a| a.step != Step::Kept).map(Action::to_string).collect()
    }

    #[test]
    fn a_physical_port_stays_open_while_it_is_mapped() {
        let [one, two] = [spec(&[(0, "fw", 64)]), spec(&[(0, "fw", 64), (2, "dpi", 64)])];
        let wan = "changed port wan (mapping)";
        assert_eq!(taken(&one, &two), [wan, "reopened port dpi (mapping)", "added mapping wan.2 -> dpi"]);
        assert_eq!(taken(&two, &one), [wan, "reopened port dpi (mapping)", "removed mapping wan.2 -> dpi"]);
        let other = spec(&[(0, "fw", 64), (2, "dpi", 128)]);
        assert_eq!(
            taken(&two, &other),
            [wan, "reopened port dpi (mapping)", "reopened mapping wan.2 -> dpi (copy-break)"]
        );
        let moved = spec(&[(0, "dpi", 64)]);
        let ports = [wan, "reopened port fw (mapping)", "reopened port dpi (mapping)"];
        assert_eq!(taken(&one, &moved)[..3], ports);
        assert_eq!(taken(&two, &two), [""; 0]);
    }

    #[test]
    fn a_physical_port_is_reopened_for_its_first_mapping_and_after_its_last() {
        let [none, one] = [spec(&[]), spec(&[(0, "fw", 64)])];
        let ports = ["reopened port wan (mapping)", "reopened port fw (mapping)"];
        assert_eq!(taken(&none, &one)[..2], ports);
        assert_eq!(taken(&one, &none)[..2], ports);
    }

    #[test]
    fn a_physical_port_whose_options_change_is_reopened() {
        let (one, mut two) = (spec(&[(0, "fw", 64)]), spec(&[(0, "fw", 64), (2, "dpi", 64)]));
        two.ports[0].aggregate = true;
        assert_eq!(taken(&one, &two)[0], "reopened port wan (aggregate)");
    }
}
