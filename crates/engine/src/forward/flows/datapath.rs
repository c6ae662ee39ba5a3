//! A bridge that forwards by flows, as the control side and all workers share it.

use super::ledger::Ledger;
use super::table::Flows;
use crate::drops::Drops;
use crate::live::Live;
use crate::punt::{EventNotifier, Punt, Ring};
use crate::stats::{DatapathPort, DatapathStats};
use openflow::{Classifier, FlowId, Rule};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Words of each worker's ring of packets for controllers: one mebibyte.
const RING: usize = 1 << 17;

/// See the module.
pub(crate) struct Datapath {
    pub(in crate::forward) live: Arc<Live<Flows>>,
    pub(super) ledger: Mutex<Ledger>,
    /// One per worker.
    rings: Mutex<Vec<Arc<Ring>>>,
    pub(in crate::forward) notifier: Arc<EventNotifier>,
    /// Numbers of ports. They stay the same while the switch runs, even if a port is removed and added again.
    numbers: Mutex<HashMap<String, u32>>,
    /// Drops of packets that controllers sent.
    pub(crate) drops: Arc<Drops>,
}

/// Port numbers of a bridge, as flows use them.
#[derive(Clone)]
pub(crate) struct Numbered {
    pub(in crate::forward) datapath: Arc<Datapath>,
    /// By port of the bridge.
    pub(in crate::forward) numbers: Arc<[u32]>,
}

impl Datapath {
    /// Returns a datapath that signals `notifier` for packets to controllers.
    pub(crate) fn new(notifier: Arc<EventNotifier>) -> Datapath {
        let mut ledger = Ledger::default();
        let live = Arc::new(Live::new(ledger.draw()));
        ledger.keep(live.get());
        Datapath {
            live,
            ledger: Mutex::new(ledger),
            rings: Mutex::default(),
            notifier,
            numbers: Mutex::default(),
            drops: Arc::default(),
        }
    }

    /// Sets the number of workers, and whether frames are forwarded by learned addresses (`standalone`) or dropped
    /// while there are no flows at all. Call this before giving a worker a plan.
    pub(crate) fn prepare(&self, workers: usize, standalone: bool) {
        let mut rings = self.rings.lock().unwrap();
        let had = rings.len();
        rings.resize_with(workers.max(had), || Arc::new(Ring::new(RING)));
        let mut ledger = self.ledger.lock().unwrap();
        if ledger.prepare(rings.len(), standalone) {
            self.publish(&mut ledger);
        }
    }

    /// Puts flows in force.
    pub(crate) fn set(&self, rules: Classifier<Rule>) {
        let mut ledger = self.ledger.lock().unwrap();
        ledger.rules = rules;
        self.publish(&mut ledger);
    }

    /// Returns worker `lane`'s ring of packets for controllers.
    pub(in crate::forward) fn ring(&self, lane: usize) -> Arc<Ring> {
        self.rings.lock().unwrap()[lane].clone()
    }

    fn publish(&self, ledger: &mut Ledger) {
        self.live.set(ledger.draw());
        ledger.keep(self.live.get());
    }

    /// Reports to `account` the packets and bytes of each flow since the last call. Returns how many packets were
    /// looked up, and how many of them matched a flow.
    pub(crate) fn harvest(&self, account: impl FnMut(FlowId, u64, u64)) -> (u64, u64) {
        self.ledger.lock().unwrap().harvest(account)
    }

    /// Passes packets for controllers to `take`. Call this after clearing the notifier.
    pub(crate) fn punted(&self, mut take: impl FnMut(&Punt, &[u8])) {
        let rings = self.rings.lock().unwrap();
        let mut bytes = Vec::new();
        for ring in rings.iter() {
            // Packets that arrive meanwhile ring again.
            for _ in 0..ring.waiting() {
                let Some(punt) = ring.pop(&mut bytes) else { break };
                take(&punt, &bytes);
            }
        }
    }

    /// Returns the numbers of these ports, in order.
    pub(crate) fn number(self: &Arc<Self>, ports: &[String]) -> Numbered {
        let mut known = self.numbers.lock().unwrap();
        let numbers = ports.iter().map(|name| {
            let next = known.len() as u32 + 1;
            *known.entry(name.clone()).or_insert(next)
        });
        Numbered { numbers: numbers.collect(), datapath: self.clone() }
    }

    /// Returns the statistics.
    pub(crate) fn stats(&self, bridge: &str, ports: &[String], numbered: &Numbered) -> DatapathStats {
        let rings = self.rings.lock().unwrap();
        let ledger = self.ledger.lock().unwrap();
        let sum = |of: fn(&Ring) -> u64| rings.iter().map(|ring| of(ring)).sum();
        let port = |(name, number): (&String, &u32)| DatapathPort { name: name.clone(), number: *number };
        DatapathStats {
            bridge: bridge.to_owned(),
            ports: ports.iter().zip(&numbered.numbers[..]).map(port).collect(),
            flows: ledger.flows(),
            lookups: ledger.looked_up,
            matched: ledger.found,
            searched: ledger.searched,
            packet_ins: sum(|ring| ring.pushed.get()),
            packet_ins_lost: sum(|ring| ring.lost.get()),
            packet_out_drops: self.drops.named(),
        }
    }
}
