//! Reload from one specification to the next: takes the actions that `actions` lists, and no others.

#[cfg(all(test, not(loom)))]
mod tests;

use super::actions::{actions, mapping_name, mappings_of, step};
use super::error::Error;
use super::inner::Inner;
use super::layout::Layout;
use super::mapping::Mapping;
use super::open::{self, Connection, OpenError};
use super::shared::{PortShared, SwitchParts};
use super::tags;
use super::tenancy::{self, Verdict};
use super::topology::Topology;
use crate::clock;
use crate::forward::bridge::Bridge;
use crate::forward::mac_table::Key;
use crate::port::record::Recorder;
use crate::reload::{Action, Step, Subject};
use crate::spec::{BridgeSpec, FailMode, MappingSpec, PortSpec, Spec, StaticEntry, Vlan};
use crate::stage::aggregate::rules;
use std::sync::Arc;

/// Result of a reload.
pub(super) struct Applied {
    pub(super) actions: Vec<Action>,
    /// Ports that could not be opened, or could not be recorded.
    pub(super) failed: Vec<OpenError>,
}

impl Applied {
    fn port(&mut self, name: &str) -> Option<&mut Action> {
        self.actions.iter_mut().find(|action| action.subject == Subject::Port && action.name == name)
    }

    /// Marks a kept port as changed, because an earlier failure is retried.
    fn change(&mut self, port: &str, what: &str) {
        if let Some(action) = self.port(port).filter(|action| action.step == Step::Kept) {
            (action.step, action.why) = (Step::Changed, vec![what.to_owned()]);
        }
    }

    fn fail(&mut self, port: &str, error: OpenError) {
        if let Some(action) = self.port(port) {
            action.error = Some(error.to_string());
        }
        self.failed.push(error);
    }
}

impl Inner {
    /// Turns the present topology into `spec`. On an error nothing was done.
    pub(super) fn apply(&self, spec: Spec) -> Result<Applied, Error> {
        let open = &mut *self.open.lock().unwrap();
        let old = self.topology();
        let actions = actions(&old.spec, &spec);
        // Everything that can fail as a whole comes before the first change.
        let bridges: Vec<_> =
            spec.bridges.iter().map(|wanted| self.bridge(&old, wanted, &spec, &actions)).collect::<Result<_, _>>()?;
        let spawned = self.fabric.spawn_missing(&spec.workers_or_default()).map_err(Error::Worker)?;
        let mut done = Applied { actions, failed: Vec::new() };
        if old.spec.aggregation != spec.aggregation {
            let mut laid = self.laid.lock().unwrap();
            laid.spec.clone_from(&spec.aggregation);
            self.rules.set(rules(laid.spec.as_ref(), &laid.flows));
        }
        let mappings = old.mappings(&spec, &done.actions);
        mappings.iter().for_each(|mapping| mapping.expect_growth(tags::growth(&spec, mapping.spec())));
        let ports = self.ports(&old, &mut open.next_id, &spec, &mappings, &done.actions);
        let stay = |port: &Arc<PortShared>| ports.iter().any(|other| Arc::ptr_eq(port, other));
        let had = old.layout.ports.iter().cloned().zip(open.connections.drain(..));
        let (kept, gone): (Vec<_>, Vec<_>) = had.partition(|(port, _)| stay(port));
        // Old ports close before new ones open, as both may need the same socket or interface. Their sessions drain by
        // themselves.
        gone.into_iter().for_each(|(port, connection)| self.close(&port, connection));
        // Frames for guests, new or old, must not land where they may not.
        let judge = |mapping: &Arc<Mapping>| {
            let wanted = spec.mappings.iter().find(|wanted| mapping.is_of(wanted));
            tenancy::judge(&spec, wanted.expect("it is a mapping of the specification"))
        };
        let verdicts: Vec<_> = mappings.iter().map(judge).collect();
        let reviewed = || mappings.iter().zip(verdicts.clone());
        let stricter = reviewed().filter(|(_, verdict)| *verdict != Verdict::InPlace);
        stricter.for_each(|(mapping, verdict)| mapping.review(verdict));
        for (port, shared) in spec.ports.iter().zip(&ports) {
            if self.fabric.recorder(shared.id).as_ref().map(Recorder::path) != port.record.as_deref() {
                done.change(&port.name, "record-to");
                self.record(port, shared).unwrap_or_else(|error| done.fail(&port.name, error));
            }
        }
        let mut kept: Vec<_> = kept.into_iter().map(Some).collect();
        for (port, shared) in spec.ports.iter().zip(&ports) {
            let is = |had: &&mut Option<_>| matches!(had, Some((other, _)) if Arc::ptr_eq(shared, other));
            let had = kept.iter_mut().find(is).and_then(Option::take).map(|(_, connection)| connection);
            open.connections.push(match had.filter(Connection::is_settled) {
                Some(connection) => connection,
                None => {
                    done.change(&port.name, "opened again");
                    let (opened, trouble) = open::open(port, shared, &self.fabric);
                    trouble.into_iter().for_each(|error| done.fail(&port.name, error));
                    opened
                }
            });
        }
        let layout = Layout::new(&spec, ports, bridges);
        let standalone = spec.bridges.iter().any(|b| b.flows == Some(FailMode::Standalone));
        self.datapath.prepare(layout.workers.len(), standalone);
        let mut new = Topology { spec, layout, workers: Vec::new() };
        // Only now do workers poll the new ports: each of them has its outputs.
        let lost = self.fabric.arrange(&new.layout, spawned, || new.remember(&old));
        let places = open.connections.iter_mut().zip(&new.layout.ports);
        places.filter(|(_, port)| lost.contains(&port.id)).for_each(|(connection, port)| connection.lose(port));
        reviewed().for_each(|(mapping, verdict)| mapping.review(verdict));
        new.workers = self.fabric.pulses();
        self.topology.set(new);
        Ok(done)
    }

    /// Returns the shared state of the ports of `spec`; those that stay keep theirs.
    fn ports(
        &self,
        old: &Topology,
        next_id: &mut u64,
        spec: &Spec,
        mappings: &[Arc<Mapping>],
        actions: &[Action],
    ) -> Vec<Arc<PortShared>> {
        let parts = SwitchParts { rules: &self.rules, relayed: &self.notifier, asked: &self.asked };
        let mut share = |port: &PortSpec| {
            if let Some(Step::Kept | Step::Changed) = step(actions, Subject::Port, &port.name) {
                let known = old.layout.ports.iter().find(|shared| shared.name == port.name);
                return known.cloned().expect("it was there before");
            }
            *next_id += 1;
            let of_queue = |queue| mappings.iter().find(|mapping| mapping.is_end(&port.name, queue)).cloned();
            let own = if mappings_of(spec, &port.name).next().is_some() {
                (0..port.driver.queues()).map(of_queue).collect()
            } else {
                vec![]
            };
            let shared = PortShared::new(*next_id, port, own, &parts);
            self.fabric.register(shared.id, shared.stages().clone());
            Arc::new(shared)
        };
        spec.ports.iter().map(&mut share).collect()
    }

    /// Closes a port: ends its connection to its peer, and releases all its resources.
    fn close(&self, port: &PortShared, connection: Connection) {
        drop(connection);
        self.fabric.clear(port.id, 0..port.reported());
        port.file().into_iter().chain(&self.fabric.record(port.id, None)).for_each(Recorder::keep);
    }

    /// Records the frames of a port, which may be open, as `spec` says. On an error they are not recorded.
    fn record(&self, spec: &PortSpec, port: &PortShared) -> Result<(), OpenError> {
        let created = open::recorder(spec);
        let recorder = created.as_ref().ok().cloned().flatten();
        let change = || self.fabric.record(port.id, recorder).iter().for_each(Recorder::keep);
        let mappings: Vec<_> = port.mappings().collect();
        at_rest(&mappings, Box::new(change));
        created.map(|_| ())
    }

    /// Returns the bridge that `wanted` describes.
    fn bridge(
        &self,
        old: &Topology,
        wanted: &BridgeSpec,
        spec: &Spec,
        actions: &[Action],
    ) -> Result<Arc<Bridge>, Error> {
        let known = old.bridges().find(|(had, ..)| had.name == wanted.name);
        if let (Some(Step::Kept), Some((_, bridge, _))) = (step(actions, Subject::Bridge, &wanted.name), known) {
            return Ok(bridge.clone());
        }
        let vlan = |name: &String| spec.ports.iter().find(|p| p.name == *name).map(|p| p.vlan.clone());
        let vlans: Vec<Vlan> = wanted.ports.iter().map(|name| vlan(name).unwrap_or_default()).collect();
        let seconds = u32::try_from(wanted.ageing.as_secs()).unwrap_or(u32::MAX / 2);
        let port = |name: &String| wanted.ports.iter().position(|port| port == name).map(|index| index as u16);
        let place = |entry: &StaticEntry| Some((Key::of(entry.mac, entry.vlan), port(&entry.port)?));
        let statics: Vec<_> = wanted.statics.iter().filter_map(place).collect();
        let mut bridge = Bridge::new(&vlans, wanted.learned_limit, seconds, &statics)
            .map_err(|error| Error::Statics(wanted.name.clone(), error))?;
        bridge.flows = wanted.flows.map(|_| self.datapath.number(&wanted.ports));
        Ok(Arc::new(bridge))
    }
}

/// Runs `change` while nothing is lent by any of `mappings`.
fn at_rest(mappings: &[&Arc<Mapping>], change: Box<dyn FnOnce() + '_>) {
    match mappings {
        [] => change(),
        [first, rest @ ..] => first.at_rest(|| at_rest(rest, change)),
    }
}

impl Topology {
    /// Returns the mappings of `spec`; those that stay are the same as before.
    fn mappings(&self, spec: &Spec, actions: &[Action]) -> Vec<Arc<Mapping>> {
        let mapping = |wanted: &MappingSpec, queues| {
            if let Some(Step::Kept | Step::Changed) = step(actions, Subject::Mapping, &mapping_name(wanted)) {
                let mut known = self.layout.ports.iter().flat_map(|port| port.mappings());
                return known.find(|m| m.is_of(wanted) && m.queues() == queues).cloned().expect("it was there before");
            }
            Arc::new(Mapping::new(wanted.clone(), tenancy::judge(spec, wanted), queues))
        };
        let pairs = |wanted| MappingSpec::pairs(wanted, spec).into_iter().map(move |queues| (wanted, queues));
        spec.mappings.iter().flat_map(pairs).map(|(wanted, queues)| mapping(wanted, queues)).collect()
    }

    /// Lets bridges adopt what those of `old` learned about ports that are in both. Nobody forwards meanwhile.
    fn remember(&self, old: &Topology) {
        let now = clock::seconds();
        for (spec, bridge, members) in self.bridges() {
            let Some((_, known, had)) = old.bridges().find(|(other, ..)| other.name == spec.name) else { continue };
            // Index in this bridge of a port of the old one, if it is the same port in the same VLANs.
            let place = |port: u16| {
                let port = had[usize::from(port)];
                let is = |&member: &usize| Arc::ptr_eq(&self.layout.ports[member], &old.layout.ports[port]);
                let place = members.iter().position(is)?;
                (self.spec.ports[members[place]].vlan == old.spec.ports[port].vlan).then_some(place as u16)
            };
            if Arc::ptr_eq(bridge, known) {
                bridge.table.sweep(now, |port| place(port).is_none());
            } else {
                bridge.remember(known, now, place);
            }
        }
    }
}
