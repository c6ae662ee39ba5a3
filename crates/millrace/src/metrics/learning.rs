//! Learning counters of bridges as OpenMetrics.

use super::text::{Counter, count, family};
use engine::stats::{LearningStats, PortStats};
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use std::fmt;

pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, ports: &[PortStats]) -> fmt::Result {
    type Port<'a> = (&'a PortStats, &'a LearningStats);
    let learning = || ports.iter().filter_map(|port| Some((port, port.learning.as_ref()?)));
    let labels = |(port, _): &Port<'_>| [("port", port.name.clone())];
    let learned = ("port_learned_addresses", "Addresses that a bridge has learned from the port", MetricType::Gauge);
    family(encoder, learned, learning(), labels, |(_, stats), sample| sample.encode_gauge(&stats.learned))?;
    let counters: [Counter<LearningStats>; 3] = [
        ("port_unlearned_over_limit", "Frames whose source was not learned because of the limit", |stats| {
            stats.over_limit
        }),
        ("port_unlearned_no_room", "Frames whose source was not learned for want of room", |stats| stats.no_room),
        ("port_flooded", "Frames from the port whose destination nobody knew", |stats| stats.flooded),
    ];
    for (name, help, read) in counters {
        family(encoder, (name, help, MetricType::Counter), learning(), labels, |(_, stats), sample| {
            count(sample, read(stats))
        })?;
    }
    Ok(())
}
