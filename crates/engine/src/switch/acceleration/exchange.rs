//! The rules of exchange: the functions of an owner swap buffers where they can reach each other.

use super::facts::Facts;
use super::reason::Reason;
use crate::spec::{ExchangeMode, ExchangeSpec, PortSpec, Sharing};
use std::collections::{BTreeMap, HashMap};

impl Facts<'_> {
    /// Returns the ports of each group whose functions may exchange buffers, if any two can reach each other. All ports of the
    /// group are in it, as a function that has several of them needs all in one exchange.
    pub(super) fn exchanging_groups(&self) -> Vec<ExchangeSpec> {
        let mut groups: BTreeMap<&str, Vec<&PortSpec>> = BTreeMap::new();
        for port in self.spec.ports.iter().filter(|port| self.may_exchange(port).is_ok()) {
            groups.entry(port.group.as_deref().unwrap_or_default()).or_default().push(port);
        }
        if groups.is_empty() {
            return Vec::new();
        }
        let domains = self.domains();
        let meet = |ports: &Vec<&PortSpec>| {
            let mut seen: Vec<usize> =
                ports.iter().filter_map(|port| domains.get(port.name.as_str()).copied()).collect();
            let all = seen.len();
            seen.sort_unstable();
            seen.dedup();
            seen.len() < all
        };
        groups.values().filter(|ports| meet(ports)).map(|ports| of_group(ports)).collect()
    }

    /// Numbers the patches and bridges, and returns the one that each port is in.
    fn domains(&self) -> HashMap<&str, usize> {
        let patches = self.spec.patches.iter().map(|pair| &pair[..]);
        let all = patches.chain(self.spec.bridges.iter().map(|bridge| &bridge.ports[..])).enumerate();
        all.flat_map(|(index, names)| names.iter().map(move |name| (name.as_str(), index))).collect()
    }

    /// Checks that the switch may have a port exchange buffers with others of its group.
    pub(super) fn may_exchange(&self, port: &PortSpec) -> Result<(), Reason> {
        let name = || port.name.clone();
        if port.group.is_none() || !port.driver.capabilities().has_guest {
            return Err(Reason::Alone(name()));
        }
        if self.is_off(port) {
            return Err(self.off(port));
        }
        if self.is_exchanging(&port.name) {
            return Err(Reason::ExchangesElsewhere(name()));
        }
        if port.sharing.as_ref().is_some_and(|sharing| sharing.way != Sharing::Rss) {
            return Err(Reason::Shared(name()));
        }
        Ok(())
    }

    /// Explains why two guests do not exchange buffers.
    pub(super) fn why_not_exchanged(&self, a: &PortSpec, b: &PortSpec) -> Reason {
        if !a.is_of_group_of(b) {
            return Reason::Guests([a, b].map(|port| port.name.clone()));
        }
        let refused = [a, b].into_iter().find_map(|port| self.may_exchange(port).err());
        refused.unwrap_or_else(|| Reason::Open(a.name.clone()))
    }
}

/// Returns the exchange of these ports of a group.
fn of_group(ports: &[&PortSpec]) -> ExchangeSpec {
    ExchangeSpec {
        ports: ports.iter().map(|port| port.name.clone()).collect(),
        mode: ExchangeMode::DEFAULT_GROUP,
        threshold: None,
    }
}
