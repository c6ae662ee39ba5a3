//! A reload under way. Each step takes all actions of one kind. In their order no frame reaches a port or a guest's memory that
//! neither specification allows.

use super::applied::{Applied, Findings};
use super::extent::Extent;
use crate::forward::bridge::Bridge;
use crate::port::Exchange;
use crate::port::record::Recorder;
use crate::spec::{FailMode, PortSpec, Spec};
use crate::stage::aggregate::rules;
use crate::switch::acceleration::Chosen;
use crate::switch::difference::{Difference, Fate};
use crate::switch::error::Error;
use crate::switch::inner::{Inner, Open};
use crate::switch::layout::{Assignment, Layout, Places};
use crate::switch::mapping::{Ends, Mapping};
use crate::switch::open::{self, Connection, OpenError};
use crate::switch::shared::{CommonParts, PortShared};
use crate::switch::tags;
use crate::switch::tenancy::{self, Verdict};
use crate::switch::topology::Topology;
use crate::worker::Worker;
use std::sync::Arc;

/// See the module.
pub(super) struct Transition<'s> {
    pub(super) inner: &'s Inner,
    open: &'s mut Open,
    old: Arc<Topology>,
    pub(super) spec: Spec,
    chosen: Chosen,
    /// Shared state of the ports of `spec`, in its order.
    pub(super) ports: Vec<Arc<PortShared>>,
    bridges: Vec<(Arc<Bridge>, Places)>,
    assignment: Assignment,
    pub(super) mappings: Vec<Arc<Mapping>>,
    exchanges: Vec<Arc<Exchange>>,
    /// Workers that did not run yet, by index.
    spawned: Vec<Option<Worker>>,
    difference: Difference,
    pub(super) findings: Findings,
}

impl<'s> Transition<'s> {
    /// Compares `spec`, whose queues go to workers by `assignment`, with the present topology. On an error nothing was done.
    pub(super) fn prepare(
        inner: &'s Inner,
        open: &'s mut Open,
        spec: Spec,
        assignment: Assignment,
        chosen: Chosen,
    ) -> Result<Transition<'s>, Error> {
        let old = inner.topology();
        let difference = Difference::of((&old.spec, old.layout.assignment()), (&spec, &assignment));
        let bridges = old.next_bridges(&spec, (&difference.bridges, &difference.ports), &inner.datapath)?;
        let spawned = inner.fabric.spawn_missing(&spec.workers_or_default()).map_err(Error::Worker)?;
        let mappings = old.next_mappings(&spec, &difference.mappings);
        let exchanges = old.next_exchanges(&spec);
        Ok(Transition {
            ports: next_ports(inner, &mut open.opened, &old, &spec, (&mappings, &exchanges), &difference.ports.fates),
            mappings,
            exchanges,
            findings: Findings::none(spec.ports.len()),
            difference,
            inner,
            open,
            old,
            spec,
            chosen,
            bridges,
            assignment,
            spawned,
        })
    }

    /// Sets the rules of ports that aggregate.
    pub(super) fn set_aggregation(&self) {
        if self.difference.aggregation.differ() {
            let mut laid = self.inner.laid.lock().unwrap();
            laid.spec.clone_from(&self.spec.aggregation);
            self.inner.rules.set(rules(laid.spec.as_ref(), &laid.flows));
        }
    }

    /// Closes ports that are removed or reopened: ends the connection to their peer, and releases their resources. Their
    /// sessions drain by themselves.
    pub(super) fn close_ports(&mut self) {
        for port in self.difference.ports.ended().map(|index| &self.old.layout.ports[index]) {
            drop(self.open.connections.remove(&port.id));
            let fabric = &self.inner.fabric;
            fabric.clear(port.id, 0..port.reported());
            fabric.record(port.id, None);
            port.recordings().iter().for_each(Recorder::end);
        }
    }

    /// Applies the verdicts that keep frames out of guests' memory.
    pub(super) fn tighten_mappings(&self) {
        for mapping in &self.mappings {
            mapping.expect_growth(tags::growth(&self.spec, mapping.spec()));
            let verdict = verdict(&self.spec, mapping);
            if verdict != Verdict::InPlace {
                mapping.review(verdict);
            }
        }
    }

    /// Gives the queues of physical ports that stay open their mappings of the specification: each rests that gets one or
    /// loses one. A port whose queue fails meanwhile is opened again by itself. The guests of mappings that end have gone with
    /// their ports, and those of new ones can only come to ports that are opened later. Plans of workers still join queues by
    /// the old topology, to the halves of ports that are closed, so nothing is lent by the new mappings before the workers
    /// have the new plans.
    pub(super) fn seat_queues(&mut self) {
        for (index, (spec, port)) in self.spec.ports.iter().zip(&self.ports).enumerate() {
            let seated = port.ends().set(&spec.name, &self.mappings);
            seated.unwrap_or_else(|why| self.findings.fail(index, OpenError::of(spec, why)));
        }
    }

    /// Makes sockets again that ports which stay open listen on, and that others have removed. Peers that are connected stay.
    pub(super) fn mend_sockets(&mut self, extent: Extent) {
        if extent == Extent::Differences {
            return;
        }
        for (index, (spec, port)) in self.spec.ports.iter().zip(&self.ports).enumerate() {
            let listener = self.open.connections.get(&port.id).and_then(Connection::listener);
            match listener.map_or(Ok(false), |listener| listener.mend()) {
                Ok(false) => {}
                Ok(true) => {
                    self.findings.mend(index, "socket made again");
                    port.set_missing(None);
                }
                Err(error) => {
                    self.findings.mend(index, "socket");
                    self.findings.fail(index, OpenError::of(spec, error.to_string()));
                }
            }
        }
    }

    /// Opens ports that are added or reopened, and those that could not be opened before.
    pub(super) fn open_ports(&mut self, extent: Extent) {
        let mut failed = Vec::new();
        for (index, (spec, port)) in self.spec.ports.iter().zip(&self.ports).enumerate() {
            let connection = self.open.connections.get(&port.id);
            let stays = |connection: &Connection| extent == Extent::Differences || connection.is_settled();
            if !connection.is_some_and(stays) {
                self.findings.mend(index, "opened again");
                drop(self.open.connections.remove(&port.id));
                let (connection, trouble) = open::open(spec, port, &self.inner.fabric);
                // A port that is opened but down logs its troubles by itself.
                failed.extend(trouble.as_ref().filter(|_| !connection.is_settled()).cloned());
                trouble.into_iter().for_each(|error| self.findings.fail(index, error));
                self.open.connections.insert(port.id, connection);
            }
        }
        open::lines(&failed).iter().for_each(|line| tracing::warn!("{line}"));
    }

    /// Has the workers forward by the next topology, which all readers see from now on. Returns the actions taken.
    pub(super) fn forward(self) -> Applied {
        let Transition {
            inner,
            open,
            old,
            spec,
            chosen,
            ports,
            bridges,
            assignment,
            mappings,
            exchanges,
            spawned,
            difference,
            findings,
        } = self;
        let applied = findings.report(&difference, &old.spec, &spec);
        let layout = Arc::new(Layout::new(&spec, ports, bridges, assignment));
        let standalone = spec.bridges.iter().any(|bridge| bridge.flows == Some(FailMode::Standalone));
        inner.datapath.prepare(layout.workers.len(), standalone);
        let mut new = Topology { spec, chosen, layout, mappings, exchanges, workers: Vec::new() };
        let lost = inner.fabric.arrange(&new.layout, spawned, || new.adopt(&old));
        new.take_over(&old);
        for port in new.layout.ports.iter().filter(|port| lost.contains(&port.id)) {
            open.connections.get_mut(&port.id).into_iter().for_each(|connection| connection.lose(port));
        }
        // Frames may go into guests' memory only now that no worker forwards by the old topology.
        new.mappings.iter().for_each(|mapping| mapping.review(verdict(&new.spec, mapping)));
        new.workers = inner.fabric.pulses();
        new.log_choices(&old);
        inner.topology.set(new);
        applied
    }
}

/// Returns the shared state of the ports of `spec`; those that stay open keep theirs, and those that are opened again their counters.
fn next_ports(
    inner: &Inner,
    opened: &mut u64,
    old: &Topology,
    spec: &Spec,
    (mappings, exchanges): (&[Arc<Mapping>], &[Arc<Exchange>]),
    fates: &[Fate],
) -> Vec<Arc<PortShared>> {
    let (rules, relayed, asked) = (&inner.rules, &inner.notifier, &inner.asked);
    let (files, events) = (&inner.files, &inner.events);
    let parts = CommonParts { rules, relayed, asked, exchanges, files, events };
    let mut shared = |(port, fate): (&PortSpec, &Fate)| {
        let had = match *fate {
            Fate::Stays { old: index, .. } => return old.layout.ports[index].clone(),
            Fate::Reopened { old: index, .. } => Some(&old.layout.ports[index]),
            Fate::Added => None,
        };
        *opened += 1;
        let shared = PortShared::new(*opened, port, Ends::of(port, mappings), &parts, had.map(Arc::as_ref));
        inner.fabric.register(shared.id, shared.stages().clone());
        Arc::new(shared)
    };
    spec.ports.iter().zip(fates).map(&mut shared).collect()
}

/// Returns the verdict on a mapping of this specification.
fn verdict(spec: &Spec, mapping: &Mapping) -> Verdict {
    let wanted = spec.mappings.iter().find(|wanted| mapping.is_of(wanted));
    tenancy::judge(spec, wanted.expect("it is a mapping of the specification"))
}
