//! Aggregation counters as OpenMetrics.

use super::text::{Counter, count, family};
use engine::stats::{AggregationSide, AggregationStats, NextHopStats, PACKETS_BOUNDS, SIZE_BOUNDS};
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;

/// A port's name, a direction and its counters.
type Way<'a> = (&'a str, &'static str, &'a AggregationSide);

pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, stats: &AggregationStats) -> fmt::Result {
    let labels = |hop: &&NextHopStats| [("nfi", hop.nfi.to_string())];
    let counters: [Counter<NextHopStats>; 3] = [
        ("aggregation_next_hop_packets", "Packets sent to the next hop", |hop| hop.packets),
        ("aggregation_next_hop_frames", "Frames that they went in", |hop| hop.frames),
        ("aggregation_next_hop_aggregates", "Frames of several packets among them", |hop| hop.aggregates),
    ];
    for (name, help, read) in counters {
        family(encoder, (name, help, MetricType::Counter), &stats.next_hops, labels, |hop, sample| {
            count(sample, read(hop))
        })?;
    }

    let ways = || -> Vec<Way<'_>> {
        let ports = stats.ports.iter();
        ports.flat_map(|port| [(&*port.port, "in", &port.received), (&*port.port, "out", &port.sent)]).collect()
    };
    let labels = |(port, way, _): &Way<'_>| [("port", (*port).to_owned()), ("direction", (*way).to_owned())];
    let aggregates = ("aggregation_aggregates", "Frames of several packets at the port", MetricType::Counter);
    family(encoder, aggregates, ways(), labels, |(_, _, side), sample| count(sample, side.aggregates))?;
    let held = ("aggregation_frame_packets", "Packets in a frame on the wire", MetricType::Histogram);
    family(encoder, held, ways(), labels, |(_, _, side), sample| {
        let buckets = buckets(&PACKETS_BOUNDS, &side.held);
        sample.encode_histogram::<NoLabelSet>(side.packets as f64, side.frames, &buckets, None)
    })?;
    let sizes = ("aggregation_frame_size_bytes", "Bytes of a frame on the wire", MetricType::Histogram);
    family(encoder, sizes, ways(), labels, |(_, _, side), sample| {
        let buckets = buckets(&SIZE_BOUNDS, &side.sizes);
        sample.encode_histogram::<NoLabelSet>(side.bytes as f64, side.frames, &buckets, None)
    })
}

/// Returns the classes with their bounds, and the unbounded class that the format requires.
fn buckets(bounds: &[u32], counts: &[u64]) -> Vec<(f64, u64)> {
    let classes = bounds.iter().map(|&bound| f64::from(bound)).zip(counts.iter().copied());
    classes.chain([(f64::INFINITY, 0)]).collect()
}
