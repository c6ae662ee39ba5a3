//! Counters of queues as OpenMetrics.

use super::family::{Counter, Family, buckets, count};
use engine::stats::{BURST_BOUNDS, PortStats, QueueStats};
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use std::fmt;

/// A port's name, a queue's number, and the queue.
type Queue<'a> = (&'a str, usize, &'a QueueStats);

pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, ports: &[PortStats]) -> fmt::Result {
    let queues = || {
        ports
            .iter()
            .flat_map(|port| port.queues.iter().enumerate().map(|(index, queue)| (port.name.as_str(), index, queue)))
    };
    let labels = |(port, index, _): &Queue<'_>| [("port", (*port).to_owned()), ("queue", index.to_string())];
    let counters: [Counter<QueueStats>; 4] = [
        Counter::new("queue_rx_packets", "Frames that the switch took from the queue", |queue| queue.rx_packets),
        Counter::new("queue_rx_bytes", "Bytes that the switch took from the queue", |queue| queue.rx_bytes),
        Counter::new("queue_tx_packets", "Frames that the switch put into the queue", |queue| queue.tx_packets),
        Counter::new("queue_tx_bytes", "Bytes that the switch put into the queue", |queue| queue.tx_bytes),
    ];
    for Counter { family, read } in counters {
        family.encode(encoder, queues(), labels, |(_, _, queue), sample| count(sample, read(queue)))?;
    }
    let bursts = Family::histogram("queue_rx_burst_packets", "Frames that one receive call found");
    bursts.encode(encoder, queues(), labels, |(_, _, queue), sample| {
        let buckets = buckets(&BURST_BOUNDS, &queue.bursts);
        let total = queue.bursts.iter().sum();
        sample.encode_histogram::<NoLabelSet>(queue.rx_packets as f64, total, &buckets, None)
    })
}
