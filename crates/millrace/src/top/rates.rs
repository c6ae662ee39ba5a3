//! Rates between two samples, per second. `millrace top --json` prints them as they are: the names of their fields are
//! documented in `docs/top.md`.

use super::sample::Sample;
use crate::ctl::rates::Interval;
use engine::stats::{
    AggregationSide, AggregationStats, MappingStats, NextHopStats, PortStats, QueueStats, Snapshot, WorkerStats,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// Rates between two samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Rates {
    /// Seconds between the samples.
    pub(super) seconds: f64,
    /// Seconds since the switch started.
    pub(super) uptime_seconds: f64,
    pub(super) ports: Vec<Port>,
    pub(super) drops: Vec<Dropped>,
    pub(super) workers: Vec<Worker>,
    pub(super) mappings: Vec<Mapping>,
    /// `None` if aggregation is not configured.
    pub(super) aggregation: Option<Aggregation>,
}

/// A port, all of its queues together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Port {
    pub(super) port: String,
    pub(super) driver: String,
    pub(super) up: bool,
    pub(super) detail: String,
    pub(super) forwarding: String,
    pub(super) rx_packets_per_second: f64,
    pub(super) rx_bits_per_second: f64,
    pub(super) tx_packets_per_second: f64,
    pub(super) tx_bits_per_second: f64,
    pub(super) drops_per_second: f64,
    /// `None` if no queue of the port is in a mapping.
    pub(super) mapping: Option<PortMapping>,
}

/// The mappings of a port's queues.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct PortMapping {
    /// Queues of the port that are in a mapping.
    pub(super) queues: usize,
    /// Of these, queues whose frames stay in place.
    pub(super) in_place: usize,
    /// The first reason why the others copy.
    pub(super) reason: Option<String>,
}

/// Frames that ended at one stage of a port for one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Dropped {
    pub(super) port: String,
    pub(super) stage: String,
    pub(super) reason: String,
    /// Since the port was opened.
    pub(super) frames: u64,
    pub(super) drops_per_second: f64,
}

/// A worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Worker {
    pub(super) worker: usize,
    pub(super) cpu: Option<usize>,
    pub(super) idle: String,
    /// Share of the time spent moving frames, 0 to 1.
    pub(super) busy: f64,
    pub(super) packets_per_second: f64,
    /// `None` if it received no frame.
    pub(super) cycles_per_packet: Option<f64>,
    pub(super) sleeps_per_second: f64,
    /// Seconds since its last round, if it hangs.
    pub(super) hung_seconds: Option<f64>,
    pub(super) place: String,
    /// Cycles per packet of each step and stage; nothing if no burst was sampled.
    pub(super) stages: BTreeMap<String, f64>,
    pub(super) queues: Vec<String>,
}

/// A queue of a mapping.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Mapping {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) mode: String,
    pub(super) zero_copy: bool,
    /// Why it copies.
    pub(super) reason: Option<String>,
    pub(super) on_loan: u64,
    pub(super) in_place_per_second: f64,
    pub(super) elsewhere_per_second: f64,
    pub(super) copied_per_second: f64,
    pub(super) sent_in_place_per_second: f64,
    pub(super) sent_copied_per_second: f64,
}

/// Packet aggregation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Aggregation {
    pub(super) next_hops: Vec<NextHop>,
    pub(super) ports: Vec<AggregationPort>,
}

/// A next hop.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct NextHop {
    pub(super) nfi: u16,
    pub(super) ip: Option<String>,
    pub(super) mac: String,
    /// The only port that leads to it, if that is known.
    pub(super) port: Option<String>,
    /// Service chains whose packets go to it.
    pub(super) chains: usize,
    /// Aggregates only: packets that travel alone are not counted by next hop.
    pub(super) sent: Joined,
}

/// A port that aggregates.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct AggregationPort {
    pub(super) port: String,
    pub(super) received: Joined,
    pub(super) sent: Joined,
}

/// Packets, and the frames that hold them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Joined {
    pub(super) packets_per_second: f64,
    pub(super) frames_per_second: f64,
    pub(super) aggregates_per_second: f64,
    /// `None` without a frame.
    pub(super) packets_per_frame: Option<f64>,
}

impl Rates {
    /// Computes the rates from `before` to `now`. Counters of a switch, port or worker started in between count from 0.
    pub(super) fn between(before: &Sample, now: &Sample) -> Rates {
        let restarted = now.is_of_a_switch_started_after(before);
        let nothing = Snapshot::default();
        let (before, now) = (if restarted { &nothing } else { &before.snapshot }, &now.snapshot);
        let interval = Interval { seconds: (now.uptime_seconds - before.uptime_seconds).max(0.0) };
        let port = |port: &PortStats| {
            let old = before.ports.iter().find(|old| old.name == port.name);
            Port { mapping: PortMapping::of(&port.name, &now.mappings), ..Port::between(old, port, interval) }
        };
        let worker = |worker: &WorkerStats| {
            let old = before.workers.iter().find(|old| old.index == worker.index);
            Worker::between(old.cloned().unwrap_or_default(), worker, interval, now.cycles_hz)
        };
        let mapping = |mapping: &MappingStats| {
            let old = before.mappings.iter().find(|old| old.from == mapping.from && old.to == mapping.to);
            Mapping::between(old.cloned().unwrap_or_default(), mapping, interval)
        };
        let aggregation = |stats: &AggregationStats| {
            Aggregation::between(before.aggregation.as_ref().unwrap_or(&AggregationStats::default()), stats, interval)
        };
        Rates {
            seconds: interval.seconds,
            uptime_seconds: now.uptime_seconds,
            ports: now.ports.iter().map(port).collect(),
            drops: drops(before, now, interval),
            workers: now.workers.iter().map(worker).collect(),
            mappings: now.mappings.iter().map(mapping).collect(),
            aggregation: now.aggregation.as_ref().map(aggregation),
        }
    }

    /// Adds a rate of all ports.
    pub(super) fn total(&self, rate: impl Fn(&Port) -> f64) -> f64 {
        self.ports.iter().map(rate).fold(0.0, add)
    }
}

/// Adds rates. The `sum` of none would be -0, and be shown so.
fn add(sum: f64, rate: f64) -> f64 {
    sum + rate
}

impl Port {
    fn between(old: Option<&PortStats>, port: &PortStats, interval: Interval) -> Port {
        let queues = |read: fn(&QueueStats) -> u64| -> f64 {
            let old = |queue| old.and_then(|old: &PortStats| old.queues.get(queue)).map_or(0, read);
            port.queues.iter().enumerate().map(|(index, queue)| interval.rate(old(index), read(queue))).fold(0.0, add)
        };
        let drops = port.drops.iter().map(|(reason, &frames)| {
            interval.rate(old.and_then(|old| old.drops.get(reason)).copied().unwrap_or_default(), frames)
        });
        Port {
            port: port.name.clone(),
            driver: port.driver.clone(),
            up: port.up,
            detail: port.detail.clone(),
            forwarding: port.forwarding.clone(),
            rx_packets_per_second: queues(|queue| queue.rx_packets),
            rx_bits_per_second: queues(|queue| queue.rx_bytes) * 8.0,
            tx_packets_per_second: queues(|queue| queue.tx_packets),
            tx_bits_per_second: queues(|queue| queue.tx_bytes) * 8.0,
            drops_per_second: drops.fold(0.0, add),
            mapping: None,
        }
    }
}

impl PortMapping {
    fn of(port: &str, mappings: &[MappingStats]) -> Option<PortMapping> {
        // An end is `port.queue`.
        let has = |end: &str| end.rsplit_once('.').is_some_and(|(name, _)| name == port);
        let mut found = PortMapping::default();
        for mapping in mappings.iter().filter(|mapping| has(&mapping.from) || has(&mapping.to)) {
            found.queues += 1;
            found.in_place += usize::from(mapping.zero_copy);
            found.reason = found.reason.or_else(|| mapping.reason.clone());
        }
        (found.queues > 0).then_some(found)
    }
}

fn drops(before: &Snapshot, now: &Snapshot, interval: Interval) -> Vec<Dropped> {
    let mut drops = Vec::new();
    for port in &now.ports {
        let old = before.ports.iter().find(|old| old.name == port.name);
        for (stage, reasons) in &port.stage_drops {
            let old = old.and_then(|old| old.stage_drops.get(stage));
            drops.extend(reasons.iter().map(|(reason, &frames)| Dropped {
                port: port.name.clone(),
                stage: stage.clone(),
                reason: reason.clone(),
                frames,
                drops_per_second:
                    interval.rate(old.and_then(|old| old.get(reason)).copied().unwrap_or_default(), frames),
            }));
        }
    }
    drops
}

impl Worker {
    fn between(mut old: WorkerStats, now: &WorkerStats, interval: Interval, cycles_hz: u64) -> Worker {
        if now.busy_cycles < old.busy_cycles || now.packets < old.packets || now.sampled_packets < old.sampled_packets {
            // It was started again: ratios of its counters hold only if all count from 0.
            old = WorkerStats::default();
        }
        let ratio = |part: f64, whole: u64| (whole > 0).then(|| part / whole as f64);
        let cycles = |old: &BTreeMap<String, f64>, now: &BTreeMap<String, f64>, packets: [u64; 2]| {
            let cost = |(stage, &cost): (&String, &f64)| {
                let before = old.get(stage).copied().unwrap_or_default() * packets[0] as f64;
                let cycles = (cost * packets[1] as f64 - before).max(0.0);
                Some((stage.clone(), ratio(cycles, packets[1] - packets[0])?))
            };
            now.iter().filter_map(cost).collect::<BTreeMap<_, _>>()
        };
        let sampled = [old.sampled_packets, now.sampled_packets];
        let mut stages = cycles(&old.stage_cycles_per_packet, &now.stage_cycles_per_packet, sampled);
        let sampled = [old.parent_sampled_packets, now.parent_sampled_packets];
        stages.extend(cycles(&old.parent_cycles_per_packet, &now.parent_cycles_per_packet, sampled));
        Worker {
            worker: now.index,
            cpu: now.cpu,
            idle: now.idle.clone(),
            busy: interval.busy(&old, now, cycles_hz),
            packets_per_second: interval.rate(old.packets, now.packets),
            cycles_per_packet: ratio((now.busy_cycles - old.busy_cycles) as f64, now.packets - old.packets),
            sleeps_per_second: interval.rate(old.sleeps, now.sleeps),
            hung_seconds: now.hung_seconds,
            place: now.place.clone(),
            stages,
            queues: now.queues.clone(),
        }
    }
}

impl Mapping {
    fn between(old: MappingStats, now: &MappingStats, interval: Interval) -> Mapping {
        Mapping {
            from: now.from.clone(),
            to: now.to.clone(),
            mode: now.mode.clone(),
            zero_copy: now.zero_copy,
            reason: now.reason.clone(),
            on_loan: now.on_loan,
            in_place_per_second: interval.rate(old.in_place, now.in_place),
            elsewhere_per_second: interval.rate(old.elsewhere, now.elsewhere),
            copied_per_second: interval.rate(old.copied, now.copied),
            sent_in_place_per_second: interval.rate(old.sent_in_place, now.sent_in_place),
            sent_copied_per_second: interval.rate(old.sent_copied, now.sent_copied),
        }
    }
}

impl Aggregation {
    fn between(old: &AggregationStats, now: &AggregationStats, interval: Interval) -> Aggregation {
        let next_hop = |hop: &NextHopStats| {
            let old = old.next_hops.iter().find(|old| old.nfi == hop.nfi);
            let counts = |hop: &NextHopStats| [hop.packets, hop.aggregates, hop.aggregates];
            NextHop {
                nfi: hop.nfi,
                ip: hop.ip.clone(),
                mac: hop.mac.clone(),
                port: hop.port.clone(),
                chains: hop.chains,
                sent: Joined::between(old.map_or([0; 3], counts), counts(hop), interval),
            }
        };
        let ports = now.ports.iter().map(|port| {
            let old = old.ports.iter().find(|old| old.port == port.port).cloned().unwrap_or_default();
            let counts = |side: &AggregationSide| [side.packets, side.frames, side.aggregates];
            AggregationPort {
                port: port.port.clone(),
                received: Joined::between(counts(&old.received), counts(&port.received), interval),
                sent: Joined::between(counts(&old.sent), counts(&port.sent), interval),
            }
        });
        Aggregation { next_hops: now.next_hops.iter().map(next_hop).collect(), ports: ports.collect() }
    }
}

impl Joined {
    fn between(old: [u64; 3], now: [u64; 3], interval: Interval) -> Joined {
        let shrank = old.iter().zip(now).any(|(&old, now)| now < old);
        let old = if shrank { [0; 3] } else { old };
        let [packets, frames, aggregates] = [0, 1, 2].map(|index| interval.rate(old[index], now[index]));
        let packets_per_frame = (frames > 0.0).then(|| packets / frames);
        Joined {
            packets_per_second: packets,
            frames_per_second: frames,
            aggregates_per_second: aggregates,
            packets_per_frame,
        }
    }
}

#[cfg(test)]
mod tests;
