//! Counters of ports as OpenMetrics.

use super::family::{Counter, Family, count};
use engine::stats::{OffloadStats, PortStats, RecordingStats};
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, ports: &[PortStats]) -> fmt::Result {
    let up = Family::gauge("port_up", "Whether frames can pass the port");
    let labels = |port: &&PortStats| [("port", port.name.clone()), ("driver", port.driver.clone())];
    up.encode(encoder, ports, labels, |port, sample| sample.encode_gauge(&u32::from(port.up)))?;

    let help = "ARP requests and neighbour solicitations for the switch's addresses that were answered";
    let answered = Family::counter("port_neighbours_answered", help);
    answered.encode(encoder, ports, labels, |port, sample| count(sample, port.neighbours_answered))?;

    let offloads = || ports.iter().filter_map(|port| Some((port, port.offloads.as_ref()?)));
    let of_port = |at: &(&PortStats, &OffloadStats)| labels(&at.0);
    let counters: [Counter<OffloadStats>; 5] = [
        Counter::new("port_offloads_received", "Frames from the port on which its peer left work", |at| at.received),
        Counter::new("port_offloads_passed_on", "Frames to the port whose work was left to its peer", |at| {
            at.passed_on
        }),
        Counter::new("port_offloads_completed", "Frames to the port whose work the switch did", |at| at.completed),
        Counter::new("port_offloads_merged", "Frames to the port that were merged into messages", |at| at.merged),
        Counter::new("port_offloads_messages", "Messages that frames to the port were merged into", |at| at.messages),
    ];
    for Counter { family, read } in counters {
        family.encode(encoder, offloads(), of_port, |(_, at), sample| count(sample, read(at)))?;
    }

    let help = "Bursts from the port's guest that ended early, as they had cost enough";
    let cut_short = Family::counter("port_cut_short", help);
    cut_short.encode(encoder, ports, labels, |port, sample| count(sample, port.cut_short))?;

    let recordings = || ports.iter().flat_map(|port| port.recordings.iter().map(move |recording| (port, recording)));
    let of_file = |at: &(&PortStats, &RecordingStats)| [("port", at.0.name.clone()), ("file", at.1.file.clone())];
    let records = Family::gauge("recording_up", "Whether the capture file takes frames");
    records.encode(encoder, recordings(), of_file, |at, sample| sample.encode_gauge(&u32::from(at.1.records)))?;

    let written = Family::counter("recording_written", "Frames of the port in the capture file");
    written.encode(encoder, recordings(), of_file, |at, sample| count(sample, at.1.written))?;

    let lost = Family::counter("recording_lost", "Frames of the port that are missing in the capture file");
    let samples = recordings().flat_map(|(port, recording)| {
        recording.lost.iter().map(move |(reason, frames)| {
            ([("port", port.name.as_str()), ("file", recording.file.as_str()), ("reason", reason.as_str())], *frames)
        })
    });
    lost.encode(encoder, samples, |(labels, _)| *labels, |(_, frames), sample| count(sample, *frames))?;

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
