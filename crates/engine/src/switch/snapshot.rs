//! The report of the switch: all counters at one moment, and MAC tables.

use super::Switch;
use super::layout::{Domain, Joined, Senders};
use super::mapping::Mapping;
use super::shared::PortShared;
use super::topology::Topology;
use crate::clock::{self, Cycles};
use crate::drops::by_reason;
use crate::forward::mac_table::Learning;
use crate::port::Exchange;
use crate::port::record::Recorder;
use crate::queue_id::QueueId;
use crate::spec::{PortSpec, WorkerSpec};
use crate::stats::{
    ExchangeStats, LaneStats, LearningStats, MacEntry, MappingStats, OffloadStats, PortState, PortStats, QueueStats,
    Snapshot, WorkerStats,
};
use crate::worker::{Pulse, STILL};
use std::sync::Arc;

impl Switch {
    /// Returns all counters at this moment.
    pub fn snapshot(&self) -> Snapshot {
        let topology = self.inner.topology();
        let layout = &topology.layout;
        let ports = layout.ports.iter().zip(&topology.spec.ports).enumerate();
        let worker = |(pulse, spec): (&Arc<Pulse>, &WorkerSpec)| {
            let index = pulse.index;
            WorkerStats {
                index,
                cpu: spec.cpu.filter(|_| !pulse.is_unpinned()),
                idle: spec.idle.name().into(),
                queues: topology.queues_of(index),
                place: topology.place(pulse),
                hung_seconds: hung(pulse),
                ..pulse.counters.stats()
            }
        };
        Snapshot {
            uptime_seconds: self.inner.started.elapsed().as_secs_f64(),
            cycles_hz: Cycles::new().hz(),
            ports: ports.map(|(index, (port, spec))| topology.port_stats(index, port, spec)).collect(),
            workers: topology.workers.iter().zip(&layout.workers).map(worker).collect(),
            mappings: topology.mapping_stats(),
            exchanges: topology.exchanges.iter().map(|exchange| topology.exchange_stats(exchange)).collect(),
            aggregation: topology.aggregation_stats(&self.inner.rules.get()),
            datapath: topology.datapath_stats(&self.inner.datapath),
        }
    }

    /// Returns the state of a port, if it is there. Does not wait for a change that is under way.
    pub fn port_state(&self, name: &str) -> Option<PortState> {
        let topology = self.inner.topology();
        let port = topology.layout.ports.iter().find(|port| port.name == name)?;
        let state = port.state();
        Some(PortState { up: state.up, open: state.up || state.open, detail: state.shown() })
    }

    /// Returns the MAC tables of all bridges.
    pub fn macs(&self) -> Vec<MacEntry> {
        self.inner.topology().macs()
    }
}

impl Topology {
    /// Returns the MAC tables of all bridges.
    pub(super) fn macs(&self) -> Vec<MacEntry> {
        let now = clock::seconds();
        let mut entries = Vec::new();
        for (spec, bridge, places) in self.bridges() {
            let known = bridge.table.entries(now).into_iter();
            // Ports that have come since are not in this topology.
            let known = known.filter_map(|e| Some((e, (*places.get(usize::from(e.port))?)?)));
            entries.extend(known.map(|(e, port)| MacEntry {
                bridge: spec.name.clone(),
                mac: e.mac.to_string(),
                vlan: e.vlan,
                port: self.layout.ports[port].name.clone(),
                age_seconds: e.seen.map(|s| now.wrapping_sub(s).into()),
            }));
        }
        entries
    }

    fn port_stats(&self, index: usize, port: &PortShared, spec: &PortSpec) -> PortStats {
        let state = port.state();
        let stage_drops = port.drops.named();
        let sharing = self.layout.sharing(index);
        let queues: Vec<_> = (0..port.reported())
            .map(|queue| {
                let lane = |(lane, &worker): (usize, &usize)| {
                    let stats = port.counters(port.queue(queue).lane(lane)).stats();
                    LaneStats { worker, rx_packets: stats.rx_packets, rx_bytes: stats.rx_bytes }
                };
                let lanes = sharing.iter().flat_map(|sharing| sharing.workers.iter().enumerate().map(lane));
                QueueStats {
                    worker: self.layout.poller(port.queue(queue)),
                    sharing: sharing.map(|sharing| sharing.way.name().into()),
                    lanes: lanes.collect(),
                    ..port.queue_stats(queue)
                }
            })
            .collect();
        PortStats {
            name: port.name.clone(),
            driver: spec.driver.name().into(),
            up: state.up,
            detail: state.shown(),
            interface: state.interface,
            offloads: offloads(state.offloads, &queues),
            forwarding: self.forwarding(index),
            queues,
            drops: by_reason(&stage_drops),
            stage_drops,
            neighbours_answered: port.neighbours_answered(),
            cut_short: port.drops.queue.cut_short(),
            learning: self.learning(index),
            recordings: port.recordings().iter().map(Recorder::stats).collect(),
        }
    }

    /// Names the queues that a worker polls, and its parts of those that it shares.
    fn queues_of(&self, worker: usize) -> Vec<String> {
        let layout = &self.layout;
        let name = |id: QueueId| {
            let port = layout.port(id.port).filter(|port| id.queue < port.reported())?;
            Some(format!("{}.{}", port.name, id.queue))
        };
        let polled = layout.polled_by(worker).filter_map(|id| match layout.sharing_of(id) {
            None => name(id),
            Some(sharing) => name(id).filter(|_| sharing.has_parent()).map(|name| format!("{name}:parent")),
        });
        let lanes = layout.lanes_of(worker).filter_map(|id| Some(format!("{}:lane{}", name(id)?, id.lane?)));
        polled.chain(lanes).collect()
    }

    fn learning(&self, port: usize) -> Option<LearningStats> {
        let Some(Domain::Bridge { bridge, .. }) = self.layout.domain_of(port) else { return None };
        let (learning, flooded) = bridge.learning(self.layout.place_of(port)? as u16);
        let Learning { learned, limit, over_limit, no_room } = learning;
        Some(LearningStats { learned, limit, over_limit, no_room, flooded })
    }

    pub(super) fn forwarding(&self, port: usize) -> String {
        let bridge = self.bridges().find(|(_, _, places)| places.contains(&Some(port)));
        match (self.layout.domain_of(port), bridge) {
            (Some(Domain::Patch([a, b])), _) => {
                format!("patch {}", self.layout.ports[if *a == port { *b } else { *a }].name)
            }
            (_, Some((spec, ..))) => format!("bridge {}", spec.name),
            _ => self.mapped(port).or_else(|| self.mirrored(port)).unwrap_or_else(|| "nowhere".into()),
        }
    }

    /// Describes the patches of single queues of `port`, if there are any.
    fn mapped(&self, port: usize) -> Option<String> {
        let name = &self.layout.ports[port].name;
        let patches = self.spec.mappings.iter().filter(|mapping| mapping.pass_through && mapping.is_of_one());
        let others = patches.filter_map(|mapping| match (mapping.from.port == *name, mapping.to.port == *name) {
            (true, _) => Some(mapping.to.to_string()),
            (_, true) => Some(mapping.from.to_string()),
            _ => None,
        });
        let others: Vec<_> = others.collect();
        (!others.is_empty()).then(|| format!("patch {}", others.join(", ")))
    }

    /// Describes the mirrors that copy to `port`, if there are any.
    fn mirrored(&self, port: usize) -> Option<String> {
        let here = self.layout.mirrors.iter().filter(|mirror| mirror.to == port);
        let from: Vec<_> = here.flat_map(|mirror| &mirror.spec.from).map(String::as_str).collect();
        (!from.is_empty()).then(|| format!("mirror of {}", from.join(", ")))
    }

    fn exchange_stats(&self, exchange: &Exchange) -> ExchangeStats {
        let chosen_by = self.chosen.chooser_of_exchange(&self.spec, exchange.spec()).into();
        ExchangeStats { chosen_by, ..exchange.stats() }
    }

    pub(super) fn mapping_stats(&self) -> Vec<MappingStats> {
        let mut mappings: Vec<_> = self.layout.joined.iter().zip(&self.mappings).collect();
        mappings.sort_by_key(|(joined, _)| (self.layout.index(joined.physical.port), joined.physical.queue));
        let stats = |(joined, mapping): (&Joined, &Arc<Mapping>)| MappingStats {
            chosen_by: self.chosen.chooser_of_mapping(&self.spec, mapping.spec()).into(),
            ..mapping.stats(|| self.lends(*joined))
        };
        mappings.into_iter().map(stats).collect()
    }

    /// Checks that the worker of a physical queue can borrow from the guest's queue, or explains why not.
    fn lends(&self, Joined { physical: from, guest: to }: Joined) -> Result<(), String> {
        let [Some(from_port), Some(to_port)] =
            [from, to].map(|queue| self.layout.index(queue.port).map(|index| &self.spec.ports[index]))
        else {
            return Err("its port has gone".into());
        };
        if let Some(sharing) = self.layout.sharing_of(from).filter(|sharing| !sharing.has_parent()) {
            return Err(format!(
                "the workers of \"{}\" share it by rx-sharing = \"{}\"",
                from_port.name,
                sharing.way.name()
            ));
        }
        if self.layout.senders(to) == Senders::Several {
            let worker = self.layout.poller(from).unwrap_or_default();
            return Err(format!(
                "several workers send to \"{}\": let worker {worker} poll all ports that do",
                to_port.name
            ));
        }
        for port in [from_port, to_port] {
            if port.record.is_some() || port.fault.is_some() || port.staged {
                return Err(format!("frames of \"{}\" are recorded, staged or have faults injected", port.name));
            }
        }
        Ok(())
    }
}

/// Returns how long a worker has hung, in seconds, if it hangs.
fn hung(pulse: &Pulse) -> Option<f64> {
    pulse.hung().map(|time| time.max(STILL).as_secs_f64())
}

/// Returns what is known of a port's offloads, with the frames of these queues. `None` if nothing is known of them, and no frame had work
/// left.
fn offloads(known: Option<OffloadStats>, queues: &[QueueStats]) -> Option<OffloadStats> {
    let sum = |read: fn(&QueueStats) -> u64| queues.iter().map(read).sum();
    let received = sum(|queue| queue.rx_offloaded);
    let passed_on = sum(|queue| queue.tx_offloaded);
    let completed = sum(|queue| queue.tx_completed);
    let merged = sum(|queue| queue.tx_merged);
    let messages = sum(|queue| queue.tx_messages);
    let none = || OffloadStats { why: "the driver leaves no work".to_owned(), ..OffloadStats::default() };
    let known = known.or_else(|| (received + passed_on + completed > 0).then(none))?;
    Some(OffloadStats { received, passed_on, completed, merged, messages, ..known })
}
