//! Aggregation counters as OpenMetrics.

use super::family::{Counter, Family, buckets, count};
use engine::stats::{AggregationSide, AggregationStats, NextHopStats, PACKETS_BOUNDS, SIZE_BOUNDS};
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use std::fmt;

/// A port's name, a direction and its counters.
type Way<'a> = (&'a str, &'static str, &'a AggregationSide);

pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, stats: &AggregationStats) -> fmt::Result {
    let labels = |hop: &&NextHopStats| [("nfi", hop.nfi.to_string())];
    let counters: [Counter<NextHopStats>; 2] = [
        Counter::new("aggregation_next_hop_aggregates", "Aggregates sent to the next hop", |hop| hop.aggregates),
        Counter::new("aggregation_next_hop_packets", "Packets in them", |hop| hop.packets),
    ];
    for Counter { family, read } in counters {
        family.encode(encoder, &stats.next_hops, labels, |hop, sample| count(sample, read(hop)))?;
    }

    let ways = || -> Vec<Way<'_>> {
        let ports = stats.ports.iter();
        ports.flat_map(|port| [(&*port.port, "in", &port.received), (&*port.port, "out", &port.sent)]).collect()
    };
    let labels = |(port, way, _): &Way<'_>| [("port", (*port).to_owned()), ("direction", (*way).to_owned())];
    let aggregates = Family::counter("aggregation_aggregates", "Frames of several packets at the port");
    aggregates.encode(encoder, ways(), labels, |(_, _, side), sample| count(sample, side.aggregates))?;
    let held = Family::histogram("aggregation_frame_packets", "Packets in a frame on the wire");
    held.encode(encoder, ways(), labels, |(_, _, side), sample| {
        let buckets = buckets(&PACKETS_BOUNDS, &side.held);
        sample.encode_histogram::<NoLabelSet>(side.packets as f64, side.frames, &buckets, None)
    })?;
    let sizes = Family::histogram("aggregation_frame_size_bytes", "Bytes of a frame on the wire");
    sizes.encode(encoder, ways(), labels, |(_, _, side), sample| {
        let buckets = buckets(&SIZE_BOUNDS, &side.sizes);
        sample.encode_histogram::<NoLabelSet>(side.bytes as f64, side.frames, &buckets, None)
    })
}
