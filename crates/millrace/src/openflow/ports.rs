//! Ports of the switch as seen by controllers.

use engine::drops::is_at_destination;
use engine::stats::{PortStats, QueueStats, Snapshot};
use openflow::{Millis, Switch};
use packet::MacAddr;
use std::collections::HashMap;

/// The ports visible to controllers: those of the bridge with `openflow`, or all if there is none.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// Port numbers if no bridge has `openflow`: a port keeps its number as long as the switch runs, even if it is removed and
    /// added again.
    numbers: HashMap<String, u32>,
    present: Vec<u32>,
}

impl Ports {
    /// Updates `switch` with the ports that were added, changed or removed, and with their counters.
    pub(super) fn update(&mut self, switch: &mut Switch, snapshot: &Snapshot, now: Millis) {
        let mut present = Vec::with_capacity(snapshot.ports.len());
        for port in &snapshot.ports {
            let Some(number) = self.number(snapshot, &port.name) else { continue };
            present.push(number);
            let interface = port.interface.as_ref();
            let mac = interface.and_then(|interface| interface.mac.parse().ok());
            let seen = openflow::Port {
                number,
                mac: mac.unwrap_or_else(|| MacAddr::from_name(&port.name)),
                name: port.name.clone(),
                up: port.up,
                speed: interface.and_then(|interface| interface.speed).unwrap_or(0).saturating_mul(1000),
                configurable: snapshot.datapath.is_some(),
            };
            switch.set_port(seen, now);
            switch.set_port_stats(number, stats(port));
        }
        for gone in self.present.iter().filter(|number| !present.contains(number)) {
            switch.remove_port(*gone);
        }
        self.present = present;
    }

    fn number(&mut self, snapshot: &Snapshot, name: &str) -> Option<u32> {
        if let Some(datapath) = &snapshot.datapath {
            return datapath.ports.iter().find(|port| port.name == name).map(|port| port.number);
        }
        let next = self.numbers.len() as u32 + 1;
        Some(*self.numbers.entry(name.to_owned()).or_insert(next))
    }
}

fn stats(port: &PortStats) -> openflow::PortStats {
    let sum = |of: fn(&QueueStats) -> u64| port.queues.iter().map(of).sum();
    let dropped = |at_destination: bool| {
        port.drops.iter().filter(|(name, _)| is_at_destination(name) == at_destination).map(|(_, frames)| frames).sum()
    };
    openflow::PortStats {
        rx_packets: sum(|queue| queue.rx_packets),
        rx_bytes: sum(|queue| queue.rx_bytes),
        tx_packets: sum(|queue| queue.tx_packets),
        tx_bytes: sum(|queue| queue.tx_bytes),
        rx_dropped: dropped(false),
        tx_dropped: dropped(true),
        rx_errors: 0,
        tx_errors: 0,
    }
}
