//! Learning counters of bridges as OpenMetrics.

use super::family::{Counter, Family, count};
use engine::stats::{LearningStats, PortStats};
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, ports: &[PortStats]) -> fmt::Result {
    type Port<'a> = (&'a PortStats, &'a LearningStats);
    let learning = || ports.iter().filter_map(|port| Some((port, port.learning.as_ref()?)));
    let labels = |(port, _): &Port<'_>| [("port", port.name.clone())];
    let learned = Family::gauge("port_learned_addresses", "Addresses that a bridge has learned from the port");
    learned.encode(encoder, learning(), labels, |(_, stats), sample| sample.encode_gauge(&stats.learned))?;
    let counters: [Counter<LearningStats>; 3] = [
        Counter::new(
            "port_unlearned_over_limit",
            "Frames whose source was not learned because of the limit",
            |stats| stats.over_limit,
        ),
        Counter::new(
            "port_unlearned_no_room",
            "Frames whose source was not learned because the table was full",
            |stats| stats.no_room,
        ),
        Counter::new("port_flooded", "Frames from the port with an unknown destination", |stats| stats.flooded),
    ];
    for Counter { family, read } in counters {
        family.encode(encoder, learning(), labels, |(_, stats), sample| count(sample, read(stats)))?;
    }
    Ok(())
}
