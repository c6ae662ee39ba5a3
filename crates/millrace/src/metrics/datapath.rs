//! OpenFlow counters as OpenMetrics.

use super::family::{Counter, Family, count};
use engine::stats::DatapathStats;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, stats: &DatapathStats) -> fmt::Result {
    let labels = |stats: &&DatapathStats| [("bridge", stats.bridge.clone())];
    let counters: [Counter<DatapathStats>; 5] = [
        Counter::new("openflow_lookups", "Frames that a flow was looked up for", |stats| stats.lookups),
        Counter::new("openflow_matched", "Frames that a flow was found for", |stats| stats.matched),
        Counter::new(
            "openflow_searched",
            "Frames that no worker remembered, so that the table was searched",
            |stats| stats.searched,
        ),
        Counter::new("openflow_packet_ins", "Packets taken for controllers", |stats| stats.packet_ins),
        Counter::new(
            "openflow_packet_ins_lost",
            "Packets that controllers did not get because their room was full",
            |stats| stats.packet_ins_lost,
        ),
    ];
    for Counter { family, read } in counters {
        family.encode(encoder, [stats], labels, |stats, sample| count(sample, read(stats)))?;
    }
    let flows = Family::gauge("openflow_flows", "Flows in force");
    flows.encode(encoder, [stats], labels, |stats, sample| sample.encode_gauge(&(stats.flows as f64)))
}
