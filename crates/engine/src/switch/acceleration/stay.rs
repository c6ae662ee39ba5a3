//! Choices in view of the running specification: none of them opens a port again that others use.
//!
//! A port's first mapping, and the end of its last one, changes what it offers its guest, so that it has to be opened again. Users who
//! patch ports otherwise, or add one to a bridge, do not expect that. So a mapping that the switch has chosen stays as long as both of
//! its ports do. If the rules no longer allow it, it copies ([`Tenancy::Held`]). And a port that is in use gets no new one.
//!
//! Where the user changes `acceleration`, `group` or `trusted`, ports are opened again.

use super::chosen::Chosen;
use super::facts::Facts;
use super::reason::Reason;
use crate::spec::{ExchangeSpec, MappingSpec, PortSpec, Spec, Tenancy};
use crate::switch::difference::reopens;
use std::collections::HashSet;

/// The running specification, with the choices in it.
pub(in crate::switch) struct Running<'r> {
    pub(in crate::switch) spec: &'r Spec,
    pub(in crate::switch) chosen: &'r Chosen,
    /// Names of ports at which frames can pass: their guests are connected, their interfaces are there.
    pub(in crate::switch) up: HashSet<&'r str>,
}

impl Running<'_> {
    fn port(&self, name: &str) -> Option<&PortSpec> {
        self.spec.ports.iter().find(|port| port.name == name)
    }

    /// Reports whether a port of the next specification stays open, unless its mapping or exchange changes.
    fn stays(&self, facts: &Facts<'_>, name: &str) -> bool {
        let Some((had, port)) = self.port(name).zip(facts.port(name)) else { return false };
        let asked =
            |spec: &Spec, port: &PortSpec| (spec.acceleration, port.acceleration, port.group.clone(), port.trusted);
        !reopens(had, port) && asked(self.spec, had) == asked(facts.spec, port)
    }

    /// Reports whether it does, and is in use.
    fn is_used(&self, facts: &Facts<'_>, name: &str) -> bool {
        self.stays(facts, name) && self.up.contains(name)
    }

    /// Reports whether a physical port stays open that frames come by, and would have to be opened again to be mapped.
    fn is_used_unmapped(&self, facts: &Facts<'_>, name: &str) -> bool {
        let is = |other: &String| other == name;
        let patched = self.spec.patches.iter().flatten().any(is);
        let is_joined = patched || self.spec.bridges.iter().any(|bridge| bridge.ports.iter().any(is));
        is_joined && !self.spec.mappings.iter().any(|mapping| mapping.from.port == name) && self.is_used(facts, name)
    }
}

/// Reports whether two mappings join the same queues in the same way.
fn is_same(a: &MappingSpec, b: &MappingSpec) -> bool {
    (&a.from, &a.to, a.pass_through) == (&b.from, &b.to, b.pass_through)
}

/// Returns the mappings that the switch adds, and the ports that get none only because they are in use.
pub(super) fn mappings(facts: &Facts<'_>, running: &Running<'_>) -> (Vec<MappingSpec>, Vec<String>) {
    let mut allowed = facts.allowed();
    let mut held = Vec::new();
    for had in running.chosen.mappings(running.spec) {
        let ends = [&had.from.port, &had.to.port];
        let stays = ends.iter().all(|name| running.stays(facts, name) && !facts.is_mapped(name));
        if !stays || allowed.iter().any(|mapping| is_same(mapping, had)) {
            continue;
        }
        let has_end = |mapping: &MappingSpec| ends.contains(&&mapping.from.port) || ends.contains(&&mapping.to.port);
        if running.up.contains(had.to.port.as_str()) || !allowed.iter().any(has_end) {
            allowed.retain(|mapping| !has_end(mapping));
            held.push(MappingSpec { tenancy: Tenancy::Held(why_held(facts, had)), ..had.clone() });
        }
    }
    let is_new = |mapping: &MappingSpec| !running.spec.mappings.iter().any(|had| is_same(had, mapping));
    let mut left = Vec::new();
    allowed.retain(|mapping| {
        let (physical, guest) = (&mapping.from.port, &mapping.to.port);
        let used = if running.is_used(facts, guest) {
            Some(guest)
        } else {
            Some(physical).filter(|name| running.is_used_unmapped(facts, name))
        };
        let used = used.filter(|_| is_new(mapping));
        left.extend(used.cloned());
        used.is_none()
    });
    allowed.extend(held);
    (allowed, left)
}

/// Explains why a mapping that the rules do not allow copies.
fn why_held(facts: &Facts<'_>, mapping: &MappingSpec) -> String {
    let (physical, guest) = (&mapping.from.port, &mapping.to.port);
    let ports = facts.port(physical).zip(facts.port(guest)).zip(facts.joint(physical, guest));
    let why = ports.map_or(Some(Reason::Parted), |((a, b), joint)| facts.may_map(a, b, joint).err());
    // If the rules allow another mode, the port would have to be opened again for that.
    why.unwrap_or_else(|| Reason::Open(guest.clone())).to_string()
}

/// Returns the exchanges that the switch adds, and the ports that are in none only because some are in use.
pub(super) fn exchanges(facts: &Facts<'_>, running: &Running<'_>) -> (Vec<ExchangeSpec>, Vec<String>) {
    let present = |name: &String| facts.port(name);
    let goes_on = |had: &&ExchangeSpec| {
        let mut ports = had.ports.iter().filter_map(present);
        let group = ports.clone().next().and_then(|port| port.group.as_ref());
        ports.all(|port| facts.may_exchange(port).is_ok() && port.group.as_ref() == group)
            && had.ports.iter().any(|name| running.is_used(facts, name))
    };
    let had = running.chosen.exchanges(running.spec).iter().filter(goes_on);
    let mut exchanges: Vec<ExchangeSpec> = had.cloned().collect();
    let mut left = Vec::new();
    for wanted in facts.exchanging_groups() {
        let (inside, outside): (Vec<_>, Vec<_>) =
            wanted.ports.iter().partition(|name| exchanges.iter().any(|had| had.ports.contains(name)));
        let is_new = |name: &String| !running.spec.exchanges.iter().any(|had| had.ports.contains(name));
        let changes = !running.spec.exchanges.contains(&wanted);
        if !inside.is_empty() || changes && outside.iter().any(|name| is_new(name) && running.is_used(facts, name)) {
            left.extend(outside.into_iter().cloned());
        } else {
            exchanges.push(wanted);
        }
    }
    (exchanges, left)
}
