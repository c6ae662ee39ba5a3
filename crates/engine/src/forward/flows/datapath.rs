//! A bridge that forwards by flows, as the control side and all workers share it.

use super::port_config::LivePortConfig;
use super::table::{Flows, Lookups, Versions};
use super::wanted::LiveWanted;
use crate::counters::Counter;
use crate::drops::Drops;
use crate::live::Live;
use crate::stats::{DatapathPort, DatapathStats};
use handover::{EventNotifier, Punt, Ring};
use openflow::{Counters, Lane, PortConfig, Rules, WantedPackets};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Words of each worker's ring of packets for controllers: one mebibyte.
const RING: usize = 1 << 17;

/// See the module.
pub(crate) struct Datapath {
    pub(in crate::forward) live: Arc<Live<Flows>>,
    pub(super) versions: Mutex<Versions>,
    counters: Arc<Counters>,
    /// One per worker.
    rings: Mutex<Vec<Arc<Ring>>>,
    /// One per worker.
    lookups: Mutex<Vec<Arc<Lookups>>>,
    pub(in crate::forward) notifier: Arc<EventNotifier>,
    pub(in crate::forward) wanted: Arc<LiveWanted>,
    /// Packets that workers had for controllers, and that these did not get.
    undelivered: Counter,
    /// Numbers of ports, and their configuration. Numbers stay the same while the switch runs, even if a port is removed and
    /// added again.
    known: Mutex<HashMap<String, (u32, Arc<LivePortConfig>)>>,
    /// Drops of packets that controllers sent.
    pub(crate) drops: Arc<Drops>,
}

/// Port numbers of a bridge, as flows use them.
#[derive(Clone)]
pub(crate) struct Numbered {
    pub(in crate::forward) datapath: Arc<Datapath>,
    /// By port of the bridge.
    pub(in crate::forward) numbers: Arc<[u32]>,
    pub(crate) configs: Arc<[Arc<LivePortConfig>]>,
}

impl Datapath {
    pub(crate) fn new(notifier: Arc<EventNotifier>) -> Datapath {
        let counters = Arc::default();
        let mut versions = Versions::new(&counters);
        let live = Arc::new(Live::new(versions.draw()));
        versions.keep(live.get());
        Datapath {
            live,
            versions: Mutex::new(versions),
            counters,
            rings: Mutex::default(),
            lookups: Mutex::default(),
            notifier,
            wanted: Arc::default(),
            undelivered: Counter::default(),
            known: Mutex::default(),
            drops: Arc::default(),
        }
    }

    /// Sets the number of workers, and whether frames are forwarded by learned addresses (`standalone`) or dropped
    /// while there are no flows at all. Call this before giving a worker a plan.
    pub(crate) fn prepare(&self, workers: usize, standalone: bool) {
        let mut rings = self.rings.lock().unwrap();
        let workers = workers.max(rings.len());
        rings.resize_with(workers, || Arc::new(Ring::new(RING)));
        self.lookups.lock().unwrap().resize_with(workers, Arc::default);
        let mut versions = self.versions.lock().unwrap();
        if versions.prepare(standalone) {
            self.publish(&mut versions);
        }
    }

    /// Puts flows in force.
    pub(crate) fn set(&self, rules: Rules) {
        let mut versions = self.versions.lock().unwrap();
        versions.rules = rules;
        self.publish(&mut versions);
    }

    pub(crate) fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// Returns the counters of worker `lane`: packets of flows, and lookups.
    pub(in crate::forward) fn lane(&self, lane: usize) -> (Arc<Lane>, Arc<Lookups>) {
        (self.counters.lane(lane), self.lookups.lock().unwrap()[lane].clone())
    }

    /// Returns worker `lane`'s ring of packets for controllers.
    pub(in crate::forward) fn ring(&self, lane: usize) -> Arc<Ring> {
        self.rings.lock().unwrap()[lane].clone()
    }

    fn publish(&self, versions: &mut Versions) {
        self.live.set(versions.draw());
        versions.keep(self.live.get());
    }

    /// Returns how many packets found no flow in each table. Frees memory that no worker uses any more: call this a few times
    /// in a second.
    pub(crate) fn missed(&self) -> Vec<u64> {
        let mut versions = self.versions.lock().unwrap();
        versions.free();
        versions.missed(&self.counters.lanes())
    }

    /// Passes packets for controllers to `take`, which reports whether they got them. Call this after clearing the notifier.
    pub(crate) fn punted(&self, mut take: impl FnMut(&Punt, &[u8]) -> bool) {
        let rings = self.rings.lock().unwrap();
        let mut bytes = Vec::new();
        for ring in rings.iter() {
            // Packets that arrive meanwhile ring again.
            for _ in 0..ring.waiting() {
                let Some(punt) = ring.pop(&mut bytes) else { break };
                if !take(&punt, &bytes) {
                    self.undelivered.add(1);
                }
            }
        }
    }

    /// Returns the numbers of these ports, in order.
    pub(crate) fn number(self: &Arc<Self>, ports: &[String]) -> Numbered {
        let mut known = self.known.lock().unwrap();
        let ports = ports.iter().map(|name| {
            let next = known.len() as u32 + 1;
            known.entry(name.clone()).or_insert_with(|| (next, Arc::default())).clone()
        });
        let (numbers, configs): (Vec<_>, Vec<_>) = ports.unzip();
        Numbered { numbers: numbers.into(), configs: configs.into(), datapath: self.clone() }
    }

    /// Sets the configuration of the port of this number.
    pub(crate) fn configure(&self, number: u32, config: PortConfig) {
        let known = self.known.lock().unwrap();
        known.values().filter(|(known, _)| *known == number).for_each(|(_, live)| live.set(config));
    }

    /// Sets the reasons for which any controller wants packets; workers drop the others.
    pub(crate) fn want(&self, wanted: WantedPackets) {
        self.wanted.set(wanted);
    }

    pub(crate) fn stats(&self, bridge: &str, ports: &[String], numbered: &Numbered) -> DatapathStats {
        let missed = self.missed().iter().sum::<u64>();
        let flows = self.versions.lock().unwrap().rules.len();
        let looked_up = self.lookups.lock().unwrap().iter().map(|lookups| lookups.packets.get()).sum::<u64>();
        let searched = self.lookups.lock().unwrap().iter().map(|lookups| lookups.searched.get()).sum();
        let rings = self.rings.lock().unwrap();
        let sum = |of: fn(&Ring) -> u64| rings.iter().map(|ring| of(ring)).sum();
        let configs = numbered.configs.iter().map(|config| config.get().names().map(str::to_owned).collect());
        let port = |((name, number), config): ((&String, &u32), _)| DatapathPort {
            name: name.clone(),
            number: *number,
            config,
        };
        DatapathStats {
            bridge: bridge.to_owned(),
            ports: ports.iter().zip(&numbered.numbers[..]).zip(configs).map(port).collect(),
            flows,
            lookups: looked_up,
            matched: looked_up.saturating_sub(missed),
            searched,
            packet_ins: sum(|ring| ring.pushed.get()),
            packet_ins_lost: sum(|ring| ring.lost.get()) + self.undelivered.get(),
            packet_out_drops: self.drops.named(),
        }
    }
}
