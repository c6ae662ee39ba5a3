//! The fate of a port in a reload.

use super::Comparison;
use super::fate::{Fates, Outcome, Why, named};
use crate::spec::{Driver, MappingSpec, PortSpec, Spec};

impl Comparison<'_> {
    pub(super) fn ports(&self) -> Fates {
        Fates::of(&self.old.ports, &self.new.ports, |port| &port.name, |had, port| self.port(had, port))
    }

    fn port(&self, had: &PortSpec, port: &PortSpec) -> Outcome {
        let (mut reopening, mut changes) = (reopening(had, port), changes(had, port));
        if self.is_remapped(&port.name) {
            let why = if self.stays_physical(&port.name) { &mut changes } else { &mut reopening };
            why.push("mapping");
        }
        let exchange =
            |spec: &Spec| spec.exchanges.iter().find(|exchange| exchange.ports.contains(&port.name)).cloned();
        if exchange(self.old) != exchange(self.new) {
            reopening.push("exchange");
        }
        if reopening.is_empty() { Outcome::Stays(changes) } else { Outcome::Ends(reopening) }
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
}

/// Reports whether a port has to be reopened for a difference that is not in its mappings and exchanges.
pub(in crate::switch) fn reopens(had: &PortSpec, port: &PortSpec) -> bool {
    !reopening(had, port).is_empty()
}

/// Returns the differences, apart from its mappings, for which a port has to be reopened.
fn reopening(had: &PortSpec, port: &PortSpec) -> Why {
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
        acceleration: _,
        group: _,
        trusted: _,
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
fn changes(had: &PortSpec, port: &PortSpec) -> Why {
    named(&[
        ("VLANs", port.vlan != had.vlan),
        ("record-to", port.record != had.record),
        ("rx-sharing", port.sharing != had.sharing),
        ("acceleration", port.acceleration != had.acceleration),
        ("group", port.group != had.group),
        ("trusted", port.trusted != had.trusted),
    ])
}

/// Returns the mappings that have queues of this port as an end.
fn mappings_of<'s>(spec: &'s Spec, port: &str) -> impl Iterator<Item = &'s MappingSpec> {
    spec.mappings.iter().filter(move |mapping| mapping.from.port == port || mapping.to.port == port)
}
