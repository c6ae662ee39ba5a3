//! Counters of ports as OpenMetrics.

use super::family::{Family, count};
use engine::stats::PortStats;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, ports: &[PortStats]) -> fmt::Result {
    let up = Family::gauge("port_up", "Whether frames can pass the port");
    let labels = |port: &&PortStats| [("port", port.name.clone()), ("driver", port.driver.clone())];
    up.encode(encoder, ports, labels, |port, sample| sample.encode_gauge(&u32::from(port.up)))?;

    let help = "ARP requests and neighbour solicitations for the switch's addresses that were answered";
    let answered = Family::counter("port_neighbours_answered", help);
    answered.encode(encoder, ports, labels, |port, sample| count(sample, port.neighbours_answered))?;

    let help = "Bursts from the port's guest that ended early, as they had cost enough";
    let cut_short = Family::counter("port_cut_short", help);
    cut_short.encode(encoder, ports, labels, |port, sample| count(sample, port.cut_short))?;

    let drops = Family::counter("port_drops", "Frames that ended at the port without being sent");
    let samples = ports.iter().flat_map(|port| {
        port.stage_drops.iter().flat_map(move |(stage, reasons)| {
            reasons.iter().map(move |(reason, frames)| {
                ([("port", port.name.as_str()), ("stage", stage.as_str()), ("reason", reason.as_str())], *frames)
            })
        })
    });
    drops.encode(encoder, samples, |(labels, _)| *labels, |(_, frames), sample| count(sample, *frames))
}
