//! Rates per second between two snapshots.

use engine::stats::{PortStats, QueueStats, Snapshot, WorkerStats};
use serde::Serialize;

/// All rates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Rates {
    /// Seconds between the snapshots.
    pub seconds: f64,
    /// Every queue of every port.
    pub queues: Vec<QueueRates>,
    /// Every worker.
    pub workers: Vec<WorkerRates>,
}

/// One queue pair.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct QueueRates {
    pub port: String,
    pub queue: usize,
    pub rx_packets_per_second: f64,
    pub rx_bits_per_second: f64,
    pub tx_packets_per_second: f64,
    pub tx_bits_per_second: f64,
    /// Drops of the whole port, at its first queue only: drops are not counted per queue.
    pub drops_per_second: Option<f64>,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct WorkerRates {
    pub worker: usize,
    /// Share of the time spent moving frames, 0 to 1.
    pub busy: f64,
    pub packets_per_second: f64,
}

/// Time between two snapshots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub(crate) seconds: f64,
}

impl Interval {
    /// Returns how fast a counter grows, each second. One that is less than it was has started again from 0, such as that of a
    /// reopened port.
    pub(crate) fn rate(self, from: u64, to: u64) -> f64 {
        let grown = to.checked_sub(from).unwrap_or(to);
        if self.seconds > 0.0 { grown as f64 / self.seconds } else { 0.0 }
    }

    /// Returns the share of this time in which a worker moved frames, 0 to 1. Time asleep is counted as neither busy nor idle
    /// cycles.
    pub(crate) fn busy(self, before: &WorkerStats, now: &WorkerStats, cycles_hz: u64) -> f64 {
        (self.rate(before.busy_cycles, now.busy_cycles) / cycles_hz.max(1) as f64).min(1.0)
    }
}

/// Computes the rates from `before` to `now`. Counters of a switch, port or worker started in between count from 0.
pub(super) fn between(before: &Snapshot, now: &Snapshot) -> Rates {
    let restarted = now.uptime_seconds < before.uptime_seconds;
    let nothing = Snapshot::default();
    let before = if restarted { &nothing } else { before };
    let interval = Interval { seconds: now.uptime_seconds - before.uptime_seconds };
    let rate = |from: u64, to: u64| interval.rate(from, to);
    let mut queues = Vec::new();
    for port in &now.ports {
        let old_port = before.ports.iter().find(|old| old.name == port.name);
        let dropped = |port: &PortStats| port.drops.values().sum::<u64>();
        for (index, queue) in port.queues.iter().enumerate() {
            let old = old_port.and_then(|port| port.queues.get(index)).cloned().unwrap_or_else(QueueStats::default);
            queues.push(QueueRates {
                port: port.name.clone(),
                queue: index,
                rx_packets_per_second: rate(old.rx_packets, queue.rx_packets),
                rx_bits_per_second: rate(old.rx_bytes, queue.rx_bytes) * 8.0,
                tx_packets_per_second: rate(old.tx_packets, queue.tx_packets),
                tx_bits_per_second: rate(old.tx_bytes, queue.tx_bytes) * 8.0,
                drops_per_second: (index == 0).then(|| rate(old_port.map_or(0, dropped), dropped(port))),
            });
        }
    }
    let workers = now
        .workers
        .iter()
        .map(|worker| {
            let old = before.workers.iter().find(|old| old.index == worker.index).cloned();
            let old = old.unwrap_or_else(WorkerStats::default);
            WorkerRates {
                worker: worker.index,
                busy: interval.busy(&old, worker, now.cycles_hz),
                packets_per_second: rate(old.packets, worker.packets),
            }
        })
        .collect();
    Rates { seconds: interval.seconds, queues, workers }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(uptime_seconds: f64, packets: u64, busy_cycles: u64) -> Snapshot {
        let queue = QueueStats { rx_packets: packets, rx_bytes: packets * 64, ..QueueStats::default() };
        let drops = [("no_buffer".to_owned(), packets / 2)].into();
        let port = PortStats { name: "a".into(), queues: vec![queue.clone(), queue], drops, ..PortStats::default() };
        let worker = WorkerStats { busy_cycles, packets, ..WorkerStats::default() };
        Snapshot { uptime_seconds, cycles_hz: 1000, ports: vec![port], workers: vec![worker], ..Snapshot::default() }
    }

    #[test]
    fn rates_are_differences_over_time() {
        let rates = between(&snapshot(10.0, 100, 0), &snapshot(12.0, 300, 500));
        let [first, second] = &rates.queues[..] else { panic!("{rates:?}") };
        assert_eq!((first.rx_packets_per_second, first.rx_bits_per_second), (100.0, 51_200.0));
        assert_eq!((first.drops_per_second, second.drops_per_second), (Some(50.0), None));
        assert_eq!((rates.workers[0].busy, rates.workers[0].packets_per_second), (0.25, 100.0));
    }

    #[test]
    fn a_restarted_switch_counts_from_zero() {
        let rates = between(&snapshot(10.0, 1000, 1000), &snapshot(2.0, 300, 500));
        assert_eq!(rates.queues[0].rx_packets_per_second, 150.0);
    }

    #[test]
    fn no_time_is_no_rate() {
        assert_eq!(between(&snapshot(1.0, 1, 1), &snapshot(1.0, 2, 2)).queues[0].rx_packets_per_second, 0.0);
    }
}
