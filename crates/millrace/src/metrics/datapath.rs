//! OpenFlow counters as OpenMetrics.

use super::text::{Counter, count, family};
use engine::stats::DatapathStats;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use std::fmt;

pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, stats: &DatapathStats) -> fmt::Result {
    let labels = |stats: &&DatapathStats| [("bridge", stats.bridge.clone())];
    let counters: [Counter<DatapathStats>; 5] = [
        ("openflow_lookups", "Frames that a flow was looked up for", |stats| stats.lookups),
        ("openflow_matched", "Frames that a flow was found for", |stats| stats.matched),
        ("openflow_searched", "Frames that no worker remembered, so that the table was searched", |stats| {
            stats.searched
        }),
        ("openflow_packet_ins", "Packets taken for controllers", |stats| stats.packet_ins),
        ("openflow_packet_ins_lost", "Packets that there was no room for", |stats| stats.packet_ins_lost),
    ];
    for (name, help, read) in counters {
        family(encoder, (name, help, MetricType::Counter), [stats], labels, |stats, sample| {
            count(sample, read(stats))
        })?;
    }
    let flows = ("openflow_flows", "Flows in force", MetricType::Gauge);
    family(encoder, flows, [stats], labels, |stats, sample| sample.encode_gauge(&(stats.flows as f64)))
}
