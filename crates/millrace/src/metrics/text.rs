//! A snapshot as OpenMetrics text.

use super::{aggregation, datapath, learning};
use engine::stats::{BURST_BOUNDS, PortStats, QueueStats, Snapshot, WorkerStats};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// Renders the page for a scrape of `snapshot`.
pub fn render(snapshot: &Snapshot) -> String {
    let mut registry = Registry::with_prefix("millrace");
    registry.register_collector(Box::new(Page(snapshot.clone())));
    let mut text = String::new();
    // Writing to a string cannot fail, and the encoder has no other errors.
    let _ = encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Page(Snapshot);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(snapshot) = self;
        build_info(&mut encoder)?;
        let mut uptime = encoder.encode_descriptor(
            "uptime",
            "Time since the switch started",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        uptime.encode_gauge(&snapshot.uptime_seconds)?;
        let mut frequency = encoder.encode_descriptor(
            "cycle_counter_hertz",
            "Frequency of the counter that all cycles are counted with",
            None,
            MetricType::Gauge,
        )?;
        frequency.encode_gauge(&(snapshot.cycles_hz as f64))?;
        if let Some(stats) = &snapshot.aggregation {
            aggregation::encode(&mut encoder, stats)?;
        }
        if let Some(stats) = &snapshot.datapath {
            datapath::encode(&mut encoder, stats)?;
        }
        ports(&mut encoder, &snapshot.ports)?;
        learning::encode(&mut encoder, &snapshot.ports)?;
        queues(&mut encoder, &snapshot.ports)?;
        workers(&mut encoder, &snapshot.workers)
    }
}

fn build_info(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut info = encoder.encode_descriptor("build", "Version of the switch", None, MetricType::Info)?;
    info.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
}

/// Name, help and accessor of a counter.
pub(super) type Counter<T> = (&'static str, &'static str, fn(&T) -> u64);

/// Encodes a metric family, with a sample for each item.
pub(super) fn family<Item, Labels: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, kind): (&str, &str, MetricType),
    items: impl IntoIterator<Item = Item>,
    labels: impl Fn(&Item) -> Labels,
    sample: impl Fn(&Item, &mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for item in items {
        sample(&item, &mut family.encode_family(&labels(&item))?)?;
    }
    Ok(())
}

pub(super) fn count(encoder: &mut MetricEncoder<'_>, number: u64) -> fmt::Result {
    encoder.encode_counter::<NoLabelSet, _, u64>(&number, None)
}

fn ports(encoder: &mut DescriptorEncoder<'_>, ports: &[PortStats]) -> fmt::Result {
    let up = ("port_up", "Whether frames can pass the port", MetricType::Gauge);
    let labels = |port: &&PortStats| [("port", port.name.clone()), ("driver", port.driver.clone())];
    family(encoder, up, ports, labels, |port, sample| sample.encode_gauge(&u32::from(port.up)))?;

    let help = "ARP requests and neighbour solicitations for the switch's addresses that were answered";
    let answered = ("port_neighbours_answered", help, MetricType::Counter);
    family(encoder, answered, ports, labels, |port, sample| count(sample, port.neighbours_answered))?;

    let help = "Bursts from the port's guest that ended early, as they had cost enough";
    let cut_short = ("port_cut_short", help, MetricType::Counter);
    family(encoder, cut_short, ports, labels, |port, sample| count(sample, port.cut_short))?;

    let drops = ("port_drops", "Frames that ended at the port without being sent", MetricType::Counter);
    let reasons = ports.iter().flat_map(|port| port.drops.iter().map(move |(reason, frames)| (port, reason, *frames)));
    let labels =
        |(port, reason, _): &(&PortStats, &String, u64)| [("port", port.name.clone()), ("reason", (*reason).clone())];
    family(encoder, drops, reasons, labels, |(_, _, frames), sample| count(sample, *frames))
}

/// A port's name, a queue's number, and the queue.
type Queue<'a> = (&'a str, usize, &'a QueueStats);

fn queues(encoder: &mut DescriptorEncoder<'_>, ports: &[PortStats]) -> fmt::Result {
    let queues = || {
        ports
            .iter()
            .flat_map(|port| port.queues.iter().enumerate().map(|(index, queue)| (port.name.as_str(), index, queue)))
    };
    let labels = |(port, index, _): &Queue<'_>| [("port", (*port).to_owned()), ("queue", index.to_string())];
    let counters: [Counter<QueueStats>; 4] = [
        ("queue_rx_packets", "Frames that the switch took from the queue", |queue| queue.rx_packets),
        ("queue_rx_bytes", "Bytes that the switch took from the queue", |queue| queue.rx_bytes),
        ("queue_tx_packets", "Frames that the switch put into the queue", |queue| queue.tx_packets),
        ("queue_tx_bytes", "Bytes that the switch put into the queue", |queue| queue.tx_bytes),
    ];
    for (name, help, read) in counters {
        family(encoder, (name, help, MetricType::Counter), queues(), labels, |(_, _, queue), sample| {
            count(sample, read(queue))
        })?;
    }
    let bursts = ("queue_rx_burst_packets", "Frames that one receive call found", MetricType::Histogram);
    family(encoder, bursts, queues(), labels, |(_, _, queue), sample| {
        let bounds = BURST_BOUNDS.map(f64::from);
        let mut buckets: Vec<(f64, u64)> = bounds.into_iter().zip(queue.bursts).collect();
        // The format requires an unbounded last class.
        buckets.push((f64::INFINITY, 0));
        let total = queue.bursts.iter().sum();
        sample.encode_histogram::<NoLabelSet>(queue.rx_packets as f64, total, &buckets, None)
    })
}

fn workers(encoder: &mut DescriptorEncoder<'_>, workers: &[WorkerStats]) -> fmt::Result {
    let labels = |worker: &&WorkerStats| {
        let cpu = worker.cpu.map_or("any".to_owned(), |cpu| cpu.to_string());
        [("worker", worker.index.to_string()), ("cpu", cpu)]
    };
    let counters: [Counter<WorkerStats>; 5] = [
        ("worker_busy_cycles", "Cycles in rounds that moved frames", |worker| worker.busy_cycles),
        ("worker_idle_cycles", "Cycles of polling in vain", |worker| worker.idle_cycles),
        ("worker_busy_rounds", "Rounds that moved frames", |worker| worker.busy_rounds),
        ("worker_sleeps", "Times the worker went to sleep", |worker| worker.sleeps),
        ("worker_packets", "Frames that the worker received", |worker| worker.packets),
    ];
    for (name, help, read) in counters {
        family(encoder, (name, help, MetricType::Counter), workers, labels, |worker, sample| {
            count(sample, read(worker))
        })?;
    }
    let hung = ("worker_hung_seconds", "How long the worker has made no round, if it hangs", MetricType::Gauge);
    family(encoder, hung, workers, labels, |worker, sample| {
        sample.encode_gauge(&worker.hung_seconds.unwrap_or_default())
    })?;
    let stages = workers.iter().flat_map(|worker| {
        worker.stage_cycles_per_packet.iter().map(move |(stage, cycles)| (worker.index, stage, *cycles))
    });
    let labels =
        |(worker, stage, _): &(usize, &String, f64)| [("worker", worker.to_string()), ("stage", (*stage).clone())];
    let cost = ("worker_stage_cycles_per_packet", "Cycles per frame of a stage, sampled", MetricType::Gauge);
    family(encoder, cost, stages, labels, |(_, _, cycles), sample| sample.encode_gauge(cycles))
}
