//! The rules: which ports may be mapped without a loss for anyone.

use super::chosen::Chosen;
use super::reason::Reason;
use crate::spec::{Acceleration, BridgeSpec, Idle, MappingSpec, PortQueues, PortSpec, Sharing, Spec, Tenancy, Vlan};
use crate::switch::layout::Assignment;
use foldhash::HashMap;
use std::collections::{BTreeSet, HashSet};

/// The connection of two ports.
#[derive(Clone, Copy)]
pub(in crate::switch) enum Joint<'s> {
    Patch,
    Bridge(&'s BridgeSpec),
}

/// A specification, in the form that the rules need.
pub(in crate::switch) struct Facts<'s> {
    pub(super) spec: &'s Spec,
    /// Indices of ports, by name.
    indices: HashMap<&'s str, usize>,
    /// Workers that poll the queues of each port.
    workers: &'s Assignment,
    /// Ports of mappings, exchanges and mirrors that others than the switch have specified.
    mapped: HashSet<&'s str>,
    exchanging: HashSet<&'s str>,
    mirrored: HashSet<&'s str>,
}

impl<'s> Facts<'s> {
    /// Returns the facts of `spec`, whose queues these `workers` poll, without the parts that the switch has added to it.
    pub(in crate::switch) fn of(spec: &'s Spec, workers: &'s Assignment, chosen: &Chosen) -> Facts<'s> {
        let (mappings, exchanges) = (&spec.mappings[..chosen.mappings], &spec.exchanges[..chosen.exchanges]);
        let ends = mappings.iter().flat_map(|mapping| [&mapping.from, &mapping.to]);
        Facts {
            spec,
            indices: spec.ports.iter().enumerate().map(|(index, port)| (port.name.as_str(), index)).collect(),
            workers,
            mapped: ends.map(|end| end.port.as_str()).collect(),
            exchanging: exchanges.iter().flat_map(|exchange| &exchange.ports).map(String::as_str).collect(),
            mirrored: spec.mirrors.iter().flat_map(|mirror| &mirror.from).map(String::as_str).collect(),
        }
    }

    /// Returns a port by its name, if it is there.
    pub(in crate::switch) fn port(&self, name: &str) -> Option<&'s PortSpec> {
        self.indices.get(name).map(|&index| &self.spec.ports[index])
    }

    /// Reports whether the switch chooses nothing at a port.
    pub(in crate::switch) fn is_off(&self, port: &PortSpec) -> bool {
        [self.spec.acceleration, port.acceleration].contains(&Acceleration::Off)
    }

    /// Returns the reason why the switch chooses nothing at a port.
    pub(super) fn off(&self, port: &PortSpec) -> Reason {
        Reason::Off((self.spec.acceleration == Acceleration::Auto).then(|| port.name.clone()))
    }

    /// Reports whether others have specified a mapping of the port.
    pub(super) fn is_mapped(&self, port: &str) -> bool {
        self.mapped.contains(port)
    }

    /// Reports whether others have specified an exchange of the port.
    pub(super) fn is_exchanging(&self, port: &str) -> bool {
        self.exchanging.contains(port)
    }

    /// Returns the connection of two ports, if they have one.
    pub(in crate::switch) fn joint(&self, a: &str, b: &str) -> Option<Joint<'s>> {
        let is_patch = |pair: &[String; 2]| [[a, b], [b, a]].contains(&[pair[0].as_str(), pair[1].as_str()]);
        let has = |bridge: &BridgeSpec, port: &str| bridge.ports.iter().any(|name| name == port);
        let bridge = || self.spec.bridges.iter().find(|bridge| has(bridge, a) && has(bridge, b));
        if self.spec.patches.iter().any(is_patch) { Some(Joint::Patch) } else { bridge().map(Joint::Bridge) }
    }

    /// Returns all mappings that the rules allow.
    pub(super) fn allowed(&self) -> Vec<MappingSpec> {
        let patches = self.spec.patches.iter().map(|[a, b]| (a, b, Joint::Patch));
        let bridges = self.spec.bridges.iter().filter_map(|bridge| match &bridge.ports[..] {
            [a, b] => Some((a, b, Joint::Bridge(bridge))),
            _ => None,
        });
        let allowed =
            |(a, b, joint): (&String, &String, Joint<'_>)| self.may_map(self.port(a)?, self.port(b)?, joint).ok();
        patches.chain(bridges).filter_map(allowed).collect()
    }

    /// Returns the mapping of two ports, if the one may receive into buffers of the other's guest, and nobody loses by that.
    pub(in crate::switch) fn may_map(
        &self,
        a: &PortSpec,
        b: &PortSpec,
        joint: Joint<'_>,
    ) -> Result<MappingSpec, Reason> {
        let (physical, guest) = self.ends(a, b)?;
        let name = |port: &PortSpec| port.name.clone();
        if let Some(port) = [physical, guest].into_iter().find(|port| self.is_off(port)) {
            return Err(self.off(port));
        }
        if let Some(port) = [physical, guest].into_iter().find(|port| self.is_mapped(&port.name)) {
            return Err(Reason::MappedElsewhere(name(port)));
        }
        if physical.driver.capabilities().exposes_memory && !physical.trusted && !physical.is_of_group_of(guest) {
            return Err(Reason::Untrusted { physical: name(physical), guest: name(guest) });
        }
        guest.driver.keeps_memory().map_err(|why| Reason::Balloon { guest: name(guest), why })?;
        self.nothing_looks_at_frames(physical, guest)?;
        let workers = match joint {
            Joint::Patch => vec![physical],
            Joint::Bridge(bridge) => {
                self.nobody_else_in(bridge, physical, guest)?;
                vec![physical, guest]
            }
        };
        self.a_worker_can_lend(guest, &workers)?;
        // A guest may run fewer queues. Then frames of the others would come to one that has lent its buffers.
        if physical.driver.queues() > 1 {
            return Err(Reason::SeveralQueues { physical: name(physical), guest: name(guest) });
        }
        Ok(MappingSpec {
            from: PortQueues::all(&physical.name),
            to: PortQueues::all(&guest.name),
            pass_through: matches!(joint, Joint::Patch),
            copy_break: None,
            tenancy: Tenancy::Trust(Vec::new()),
        })
    }

    /// Returns which of two ports is the physical end of a mapping, and which the guest's.
    fn ends<'p>(&self, a: &'p PortSpec, b: &'p PortSpec) -> Result<(&'p PortSpec, &'p PortSpec), Reason> {
        let [can_a, can_b] = [a, b].map(|port| port.driver.capabilities());
        if can_a.lends && can_b.has_guest {
            Ok((a, b))
        } else if can_b.lends && can_a.has_guest {
            Ok((b, a))
        } else if can_a.has_guest && can_b.has_guest {
            Err(self.why_not_exchanged(a, b))
        } else if can_a.has_guest || can_b.has_guest {
            let other = if can_a.has_guest { b } else { a };
            Err(Reason::Kind { port: other.name.clone(), driver: other.driver.name() })
        } else {
            Err(Reason::NoGuest([a, b].map(|port| port.name.clone())))
        }
    }

    /// Checks that no part of the switch looks at frames between the two, or changes them: a guest could change what it sees.
    fn nothing_looks_at_frames(&self, physical: &PortSpec, guest: &PortSpec) -> Result<(), Reason> {
        for port in [physical, guest] {
            let name = || port.name.clone();
            if self.mirrored.contains(port.name.as_str()) {
                return Err(Reason::Mirrored(name()));
            }
            if port.record.is_some() {
                return Err(Reason::Recorded(name()));
            }
            if port.fault.is_some() || port.staged {
                return Err(Reason::Faults(name()));
            }
            if port.aggregate {
                return Err(Reason::Aggregates(name()));
            }
            if port.vxlan.is_some() {
                return Err(Reason::Tunnel(name()));
            }
        }
        Ok(())
    }

    /// Checks that a bridge only has these two ports, and that the guest gets all frames that it lets pass.
    fn nobody_else_in(&self, bridge: &BridgeSpec, physical: &PortSpec, guest: &PortSpec) -> Result<(), Reason> {
        if bridge.ports.len() > 2 {
            return Err(Reason::Others { bridge: bridge.name.clone(), physical: physical.name.clone() });
        }
        if bridge.flows.is_some() {
            return Err(Reason::Flows(bridge.name.clone()));
        }
        let carries_all = |vlan: &Vlan| matches!(vlan, Vlan::Trunk(list) if list.is_empty());
        if physical.vlan != Vlan::Ignore && !carries_all(&guest.vlan) {
            return Err(Reason::Vlans { bridge: bridge.name.clone(), guest: guest.name.clone() });
        }
        Ok(())
    }

    /// Checks that only one worker sends to the guest, which gets the frames of these ports, and that it lends buffers in time.
    fn a_worker_can_lend(&self, guest: &PortSpec, from: &[&PortSpec]) -> Result<(), Reason> {
        let is_locked = |port: &PortSpec| port.sharing.as_ref().is_some_and(|sharing| sharing.way == Sharing::Locked);
        if let Some(port) = from.iter().copied().chain([guest]).find(|port| is_locked(port)) {
            return Err(Reason::Locked(port.name.clone()));
        }
        let workers = from.iter().flat_map(|port| self.workers[self.indices[port.name.as_str()]].workers());
        let workers: BTreeSet<_> = workers.collect();
        if workers.len() > 1 {
            return Err(Reason::SeveralWorkers { guest: guest.name.clone(), workers: workers.into_iter().collect() });
        }
        // Nobody wakes it when the guest posts buffers, so that the first frames might find none.
        let idle: Vec<_> = self.spec.workers_or_default().iter().map(|worker| worker.idle).collect();
        match workers.into_iter().find(|&worker| idle[worker] == Idle::Sleep) {
            Some(worker) => Err(Reason::Sleeps { worker, guest: guest.name.clone() }),
            None => Ok(()),
        }
    }
}
