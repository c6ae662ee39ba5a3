//! The explanation of a port: how frames get to its peers, and why so.

use super::Switch;
use super::acceleration::{Facts, Reason};
use super::topology::Topology;
use crate::spec::{PortSpec, Tenancy};
use crate::stats::{ExchangeStats, MappingStats};
use crate::why::{Frames, PeerWhy, PortWhy, WayWhy};
use std::collections::BTreeMap;

impl Switch {
    /// Explains how frames get from a port to its peers and back, if there is such a port.
    pub fn why(&self, port: &str) -> Option<PortWhy> {
        self.inner.topology().why(port)
    }
}

/// A pair of ports, and what the switch has of them.
struct Pair<'t> {
    topology: &'t Topology,
    facts: &'t Facts<'t>,
    port: &'t PortSpec,
    peer: &'t PortSpec,
}

impl Topology {
    fn why(&self, name: &str) -> Option<PortWhy> {
        let index = self.spec.ports.iter().position(|port| port.name == name)?;
        let (port, facts) = (&self.spec.ports[index], Facts::of(&self.spec, self.layout.assignment(), &self.chosen));
        let explain =
            |peer: &str| Some(Pair { topology: self, facts: &facts, port, peer: facts.port(peer)? }.explain());
        Some(PortWhy {
            port: port.name.clone(),
            driver: port.driver.name().into(),
            forwarding: self.forwarding(index),
            acceleration: if facts.is_off(port) { "off" } else { "auto" }.into(),
            group: port.group.clone(),
            peers: self.peers(name).into_iter().filter_map(explain).collect(),
        })
    }

    /// Names the ports that a port is joined to, or was when they were mapped to each other.
    fn peers(&self, port: &str) -> Vec<&str> {
        let has = |names: &[String]| names.iter().any(|name| name == port);
        let patches = self.spec.patches.iter().map(|pair| &pair[..]);
        let bridges = self.spec.bridges.iter().map(|bridge| &bridge.ports[..]);
        let joined = patches.chain(bridges).filter(|names| has(names)).flatten().map(String::as_str);
        let mapped = self.spec.mappings.iter().map(|mapping| [mapping.from.port.as_str(), mapping.to.port.as_str()]);
        let mapped = mapped.filter(|ends| ends.contains(&port)).flatten();
        let mut peers: Vec<&str> = Vec::new();
        for peer in joined.chain(mapped).filter(|peer| *peer != port) {
            if !peers.contains(&peer) {
                peers.push(peer);
            }
        }
        peers
    }
}

impl Pair<'_> {
    fn explain(&self) -> PeerWhy {
        self.mapped().or_else(|| self.exchanged()).unwrap_or_else(|| self.copied())
    }

    /// Reports whether these are the two ports.
    fn is(&self, a: &str, b: &str) -> bool {
        let own = [self.port.name.as_str(), self.peer.name.as_str()];
        own == [a, b] || own == [b, a]
    }

    /// Explains a mapping of the two, if there is one.
    fn mapped(&self) -> Option<PeerWhy> {
        let Topology { spec, chosen, .. } = self.topology;
        let mapping = spec.mappings.iter().find(|mapping| self.is(&mapping.from.port, &mapping.to.port))?;
        let (physical, guest) = (&mapping.from.port, &mapping.to.port);
        let chosen_by = chosen.chooser_of_mapping(spec, mapping);
        let (why, remedy) = match (&mapping.tenancy, chosen_by) {
            (Tenancy::Held(why), _) => (
                format!(
                    "{why}; the mapping stays until one of the ports is opened again, so that its guest stays connected"
                ),
                self.refusal().remedy(),
            ),
            (_, "auto") => {
                let why = match mapping.pass_through {
                    true => format!("all frames of \"{physical}\" are for \"{guest}\", which gets no others"),
                    false => format!("no port but \"{guest}\" gets frames of \"{physical}\""),
                };
                (why, None)
            }
            _ => ("a [[mapping]] says so".to_owned(), None),
        };
        let stats = self.topology.mapping_stats();
        let own =
            stats.into_iter().filter(|stats| [&stats.from, &stats.to].map(|queue| port_of(queue)) == [physical, guest]);
        Some(PeerWhy {
            peer: self.peer.name.clone(),
            chosen_by: Some(chosen_by.into()),
            why,
            remedy,
            ways: own.flat_map(ways_of_mapping).collect(),
        })
    }

    /// Explains an exchange of the two, if they are in one.
    fn exchanged(&self) -> Option<PeerWhy> {
        let Topology { spec, chosen, exchanges, .. } = self.topology;
        let has_both = |ports: &[String]| [&self.port.name, &self.peer.name].iter().all(|name| ports.contains(name));
        let exchange = exchanges.iter().find(|exchange| has_both(&exchange.spec().ports))?;
        let chosen_by = chosen.chooser_of_exchange(spec, exchange.spec());
        let why = match (chosen_by, &self.port.group) {
            ("auto", Some(group)) => format!("both are of group \"{group}\""),
            _ => "an [[exchange]] says so".into(),
        };
        let stats = exchange.stats();
        let both = [[&self.port.name, &self.peer.name], [&self.peer.name, &self.port.name]];
        Some(PeerWhy {
            peer: self.peer.name.clone(),
            chosen_by: Some(chosen_by.into()),
            why,
            remedy: None,
            ways: both.map(|[from, to]| way_of_exchange(&stats, from, to)).into(),
        })
    }

    /// Explains why frames between the two are copied.
    fn copied(&self) -> PeerWhy {
        let why = self.refusal();
        let way = |from: &PortSpec, to: &PortSpec| WayWhy {
            from: from.name.clone(),
            to: to.name.clone(),
            ..WayWhy::default()
        };
        PeerWhy {
            peer: self.peer.name.clone(),
            chosen_by: None,
            why: why.to_string(),
            remedy: why.remedy(),
            ways: vec![way(self.port, self.peer), way(self.peer, self.port)],
        }
    }

    /// Returns the reason why the switch does not map the two by itself.
    fn refusal(&self) -> Reason {
        let Some(joint) = self.facts.joint(&self.port.name, &self.peer.name) else { return Reason::Parted };
        let open = || {
            let left = [self.port, self.peer].into_iter().find(|port| self.topology.chosen.has_left(&port.name));
            Reason::Open(left.unwrap_or(self.port).name.clone())
        };
        self.facts.may_map(self.port, self.peer, joint).map_or_else(|why| why, |_| open())
    }
}

/// Returns the name of the port of `port.queue`.
fn port_of(queue: &str) -> &str {
    queue.rsplit_once('.').map_or(queue, |(port, _)| port)
}

/// Returns the two ways of a mapped pair of queues.
fn ways_of_mapping(stats: MappingStats) -> [WayWhy; 2] {
    let MappingStats { from, to, reason, in_place, elsewhere, split, copied, sent_in_place, sent_copied, .. } = stats;
    let shorter = (stats.sent_in_place_from > 0).then(|| copied_below(stats.sent_in_place_from, stats.measured));
    [
        WayWhy {
            from: from.clone(),
            to: to.clone(),
            frames: Frames::ReceivedInPlace,
            now: reason,
            in_place: in_place.saturating_sub(elsewhere + split),
            copied,
            reasons: BTreeMap::new(),
        },
        WayWhy {
            from: to,
            to: from,
            frames: Frames::SentInPlace,
            now: shorter,
            in_place: sent_in_place,
            copied: sent_copied,
            reasons: BTreeMap::new(),
        },
    ]
}

/// Explains that frames are copied which could stay in place.
fn copied_below(bytes: u32, measured: bool) -> String {
    let known = if measured { "measured" } else { "`copy-break`" };
    format!("frames shorter than {bytes} bytes are copied, as that is faster ({known})")
}

/// Returns the way from one port of an exchange to another.
fn way_of_exchange(stats: &ExchangeStats, from: &str, to: &str) -> WayWhy {
    let pair = stats.pairs.iter().find(|pair| pair.from.as_deref() == Some(from) && pair.to == to).cloned();
    let pair = pair.unwrap_or_default();
    let now = stats
        .reason
        .clone()
        .or_else(|| (stats.functions < 2).then(|| format!("{} functions have joined", stats.functions)));
    WayWhy {
        from: from.into(),
        to: to.into(),
        frames: Frames::Exchanged,
        now,
        in_place: pair.exchanged,
        copied: pair.copied.values().sum(),
        reasons: pair.copied,
    }
}
