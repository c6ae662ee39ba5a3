//! Text tables of answers.

use super::rates::Rates;
use api::confinement::Confined;
use api::port::PortSummary;
use api::{Drops, Version};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use engine::stats::{MacEntry, MappingStats, PortStats, QueueStats, Snapshot, WorkerStats};

/// Creates a table with right-aligned columns `numbers`.
pub(crate) fn table(header: &[&str], numbers: std::ops::Range<usize>) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header.iter().copied());
    for index in numbers {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

pub(crate) fn text(table: &Table) -> String {
    table.trim_fmt()
}

pub(super) fn ports(ports: &[PortSummary]) -> String {
    if ports.is_empty() {
        return "No ports are configured.".to_owned();
    }
    let mut out = table(&["PORT", "DRIVER", "STATE", "QUEUES", "FORWARDING", "DETAIL"], 3..4);
    for port in ports {
        out.add_row([
            port.name.as_str(),
            &port.driver,
            if port.up { "up" } else { "down" },
            &port.queues.to_string(),
            &port.forwarding,
            &port.detail,
        ]);
    }
    let more = [recordings(ports), offloads(ports)].into_iter().flatten();
    text(&out) + &more.map(|table| format!("\n\n{}", text(&table))).collect::<String>()
}

/// Shows ports with their owners and labels.
pub(super) fn owned(ports: &[PortSummary]) -> String {
    if ports.is_empty() {
        return "There is no such port.".to_owned();
    }
    let mut out = table(&["PORT", "DRIVER", "STATE", "FORWARDING", "OWNER", "LABELS", "DETAIL"], 0..0);
    for port in ports {
        let labels: Vec<_> = port.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        out.add_row([
            port.name.as_str(),
            &port.driver,
            if port.up { "up" } else { "down" },
            &port.forwarding,
            port.owner.name(),
            &labels.join(" "),
            &port.detail,
        ]);
    }
    text(&out)
}

/// Builds the table of work that peers may leave to others, if a port knows any.
fn offloads(ports: &[PortSummary]) -> Option<Table> {
    let mut out = table(&["PORT", "OFFLOADS", "RECEIVED", "PASSED ON", "COMPLETED", "MERGED", "WHY"], 2..6);
    for (port, offloads) in ports.iter().filter_map(|port| Some((port, port.offloads.as_ref()?))) {
        let counts = [offloads.received, offloads.passed_on, offloads.completed].map(|frames| frames.to_string());
        let merged = match offloads.messages {
            0 => "0".to_owned(),
            messages => format!("{} in {messages}", offloads.merged),
        };
        let offered = if offloads.offered.is_empty() { "none".to_owned() } else { offloads.offered.join(" ") };
        out.add_row([port.name.clone(), offered].into_iter().chain(counts).chain([merged, offloads.why.clone()]));
    }
    (out.row_count() > 0).then_some(out)
}

/// Builds the table of capture files that ports record to, if any does.
fn recordings(ports: &[PortSummary]) -> Option<Table> {
    let mut out = table(&["PORT", "RECORDED TO", "WRITTEN", "WAITING", "LOST", "STATE"], 2..5);
    for (port, recording) in ports.iter().flat_map(|port| port.recordings.iter().map(move |at| (port, at))) {
        let lost: u64 = recording.lost.values().sum();
        let reasons: Vec<_> = recording.lost.iter().map(|(reason, frames)| format!("{frames} {reason}")).collect();
        let lost = if lost == 0 { "0".to_owned() } else { format!("{lost} ({})", reasons.join(", ")) };
        out.add_row([
            port.name.as_str(),
            &recording.file,
            &recording.written.to_string(),
            &recording.waiting.to_string(),
            &lost,
            &recording.state,
        ]);
    }
    (out.row_count() > 0).then_some(out)
}

pub(super) fn stats(snapshot: &Snapshot) -> String {
    let header = ["PORT", "QUEUE", "WORKER", "RX PACKETS", "RX BYTES", "TX PACKETS", "TX BYTES", "DROPS"];
    let mut out = table(&header, 1..8);
    for port in &snapshot.ports {
        for (index, queue) in port.queues.iter().enumerate() {
            let drops = if index == 0 { port.drops.values().sum::<u64>().to_string() } else { String::new() };
            out.add_row([
                port.name.clone(),
                index.to_string(),
                workers_of(queue),
                queue.rx_packets.to_string(),
                queue.rx_bytes.to_string(),
                queue.tx_packets.to_string(),
                queue.tx_bytes.to_string(),
                drops,
            ]);
        }
    }
    let learning = learning(&snapshot.ports).map(|table| format!("\n\n{}", text(&table))).unwrap_or_default();
    format!("Up for {:.0} s.\n{}{learning}", snapshot.uptime_seconds, text(&out))
}

/// Names the worker of a queue, or all that share it.
fn workers_of(queue: &QueueStats) -> String {
    if queue.lanes.is_empty() {
        return queue.worker.map_or("-".to_owned(), |worker| worker.to_string());
    }
    queue.lanes.iter().map(|lane| lane.worker.to_string()).collect::<Vec<_>>().join(" ")
}

/// Builds the table of learning counters, if any port is in a bridge.
fn learning(ports: &[PortStats]) -> Option<Table> {
    let mut out = table(&["PORT", "LEARNED", "LIMIT", "OVER LIMIT", "NO ROOM", "FLOODED"], 1..6);
    for (port, learning) in ports.iter().filter_map(|port| Some((port, port.learning.as_ref()?))) {
        let counts = [learning.over_limit, learning.no_room, learning.flooded].map(|frames| frames.to_string());
        let addresses = [learning.learned, learning.limit].map(|addresses| addresses.to_string());
        out.add_row([port.name.clone()].into_iter().chain(addresses).chain(counts));
    }
    (out.row_count() > 0).then_some(out)
}

pub(super) fn rates(rates: &Rates) -> String {
    let header = ["PORT", "QUEUE", "RX pps", "RX bit/s", "TX pps", "TX bit/s", "DROPS/s"];
    let mut queues = table(&header, 1..7);
    for queue in &rates.queues {
        queues.add_row([
            queue.port.clone(),
            queue.queue.to_string(),
            scaled(queue.rx_packets_per_second),
            scaled(queue.rx_bits_per_second),
            scaled(queue.tx_packets_per_second),
            scaled(queue.tx_bits_per_second),
            queue.drops_per_second.map_or(String::new(), scaled),
        ]);
    }
    let mut workers = table(&["WORKER", "BUSY", "pps"], 0..3);
    for worker in &rates.workers {
        workers.add_row([
            worker.worker.to_string(),
            format!("{:.0} %", worker.busy * 100.0),
            scaled(worker.packets_per_second),
        ]);
    }
    format!("{}\n{}", text(&queues), text(&workers))
}

pub(super) fn workers(workers: &[WorkerStats]) -> String {
    let header = ["WORKER", "CPU", "IDLE", "BUSY", "SLEEPS", "PACKETS", "CYCLES/PACKET", "STATE", "QUEUES", "STAGES"];
    let mut out = table(&header, 3..7);
    for worker in workers {
        let cycles = worker.busy_cycles + worker.idle_cycles;
        let stages = worker.stage_cycles_per_packet.iter().chain(&worker.parent_cycles_per_packet);
        let hangs = |time: f64| format!("hangs for {time:.1} s at {}", worker.place);
        out.add_row([
            worker.index.to_string(),
            worker.cpu.map_or("any".to_owned(), |cpu| cpu.to_string()),
            worker.idle.clone(),
            ratio(worker.busy_cycles, cycles).map_or("-".to_owned(), |busy| format!("{:.0} %", busy * 100.0)),
            worker.sleeps.to_string(),
            worker.packets.to_string(),
            ratio(worker.busy_cycles, worker.packets).map_or("-".to_owned(), |cost| format!("{cost:.0}")),
            worker.hung_seconds.map_or("runs".to_owned(), hangs),
            worker.queues.join(" "),
            stages.map(|(stage, cost)| format!("{stage} {cost:.0}")).collect::<Vec<_>>().join(", "),
        ]);
    }
    text(&out)
}

pub(super) fn macs(entries: &[MacEntry]) -> String {
    if entries.is_empty() {
        return "No addresses are known.".to_owned();
    }
    let mut out = table(&["BRIDGE", "VLAN", "MAC", "PORT", "AGE"], 1..2);
    for entry in entries {
        out.add_row([
            entry.bridge.clone(),
            if entry.vlan == 0 { "-".to_owned() } else { entry.vlan.to_string() },
            entry.mac.clone(),
            entry.port.clone(),
            entry.age_seconds.map_or("static".to_owned(), |age| format!("{age} s")),
        ]);
    }
    text(&out)
}

pub(super) fn drops(drops: &Drops) -> String {
    if drops.is_empty() {
        return "No frames were dropped.".to_owned();
    }
    let mut out = table(&["PORT", "STAGE", "REASON", "FRAMES"], 3..4);
    for (port, stages) in drops {
        for (stage, reasons) in stages {
            for (reason, frames) in reasons {
                out.add_row([port, stage, reason, &frames.to_string()]);
            }
        }
    }
    text(&out)
}

pub(super) fn mappings(mappings: &[MappingStats]) -> String {
    if mappings.is_empty() {
        return "There are no mappings.".to_owned();
    }
    let columns = [
        "FROM",
        "TO",
        "MODE",
        "CHOSEN BY",
        "STATE",
        "ON LOAN",
        "LONGEST us",
        "IN PLACE",
        "ELSEWHERE",
        "SPLIT",
        "COPIED",
        "SENT IN PLACE",
        "SENT COPIED",
    ];
    let mut out = table(&columns, 5..13);
    for mapping in mappings {
        let reason = mapping.reason.as_deref().unwrap_or_default();
        out.add_row([
            mapping.from.clone(),
            mapping.to.clone(),
            mapping.mode.clone(),
            mapping.chosen_by.clone(),
            match mapping {
                MappingStats { zero_copy: false, .. } => format!("copy: {reason}"),
                MappingStats { sent_in_place_from: 0, .. } => "zero-copy".to_owned(),
                MappingStats { sent_in_place_from: from, .. } => format!("zero-copy; sends from {from} bytes"),
            },
            mapping.on_loan.to_string(),
            mapping.longest_loan_us.to_string(),
            mapping.in_place.to_string(),
            mapping.elsewhere.to_string(),
            mapping.split.to_string(),
            mapping.copied.to_string(),
            mapping.sent_in_place.to_string(),
            mapping.sent_copied.to_string(),
        ]);
    }
    text(&out)
}

pub(super) fn confinement(confined: &Confined) -> String {
    let mut layers = table(&["LAYER", "STATE", "DETAIL"], 0..0);
    let state = |active| if active { "on" } else { "off" };
    let capabilities = match &confined.capabilities[..] {
        [] => "no capabilities".to_owned(),
        list => list.join(" "),
    };
    let privileges = format!("user {}, {capabilities}", confined.user);
    layers.add_row(["privileges", state(confined.enabled), &privileges]);
    for (name, layer) in [("seccomp", &confined.seccomp), ("landlock", &confined.landlock)] {
        layers.add_row([name, state(layer.active), &layer.detail]);
    }
    let mut places = table(&["WITHIN REACH", "TO"], 0..0);
    for place in &confined.places {
        places.add_row([&place.path, &place.purpose]);
    }
    if confined.places.is_empty() { text(&layers) } else { format!("{}\n\n{}", text(&layers), text(&places)) }
}

pub(super) fn version(version: &Version) -> String {
    format!("{} {}", version.name, version.version)
}

pub(super) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Formats three digits and a prefix: `14.9 M`.
pub(crate) fn scaled(number: f64) -> String {
    let (mut number, mut prefix) = (number, "");
    for larger in [" k", " M", " G", " T"] {
        if number < 999.5 {
            break;
        }
        number /= 1000.0;
        prefix = larger;
    }
    let digits = match number {
        _ if prefix.is_empty() => 0,
        n if n < 9.995 => 2,
        n if n < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.digits$}{prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::confinement::PermittedPath;
    use engine::stats::{LearningStats, OffloadStats, QueueStats, RecordingStats};

    #[test]
    fn numbers_are_scaled_to_three_digits() {
        let cases = [(0.0, "0"), (999.0, "999"), (1000.0, "1.00 k"), (14_880_952.0, "14.9 M"), (999_960.0, "1.00 M")];
        for (number, expected) in cases.into_iter().chain([(123_456_789_000.0, "123 G"), (9_996.0, "10.0 k")]) {
            assert_eq!(scaled(number), expected);
        }
    }

    #[test]
    fn a_table_has_a_row_a_queue_and_the_drops_once() {
        let queue = QueueStats { rx_packets: 12, worker: Some(1), ..QueueStats::default() };
        let drops = [("no_buffer".to_owned(), 4), ("port_down".to_owned(), 5)].into();
        let port = PortStats { name: "a".into(), queues: vec![queue.clone(), queue], drops, ..PortStats::default() };
        let shown = stats(&Snapshot { uptime_seconds: 3.0, ports: vec![port], ..Snapshot::default() });
        let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["Up", "for", "3", "s."]);
        assert_eq!(rows[2], ["a", "0", "1", "12", "0", "0", "0", "9"]);
        assert_eq!(rows[3], ["a", "1", "1", "12", "0", "0", "0"]);
    }

    #[test]
    fn drops_have_a_row_for_each_stage_and_reason() {
        let count = |reason: &str, frames| [(reason.to_owned(), frames)].into();
        let stages = [("fault".to_owned(), count("injected", 4)), ("queue".to_owned(), count("busy", 5))].into();
        let shown = drops(&[("a".to_owned(), stages)].into());
        let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1..], [["a", "fault", "injected", "4"], ["a", "queue", "busy", "5"]]);
    }

    #[test]
    fn unlearned_addresses_are_shown() {
        let learning = LearningStats { learned: 3, limit: 4, over_limit: 5, no_room: 6, flooded: 7 };
        let port = PortStats { name: "a".into(), learning: Some(learning), ..PortStats::default() };
        let shown = stats(&Snapshot { ports: vec![port], ..Snapshot::default() });
        let last: Vec<&str> = shown.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last, ["a", "3", "4", "5", "6", "7"], "{shown}");
    }

    #[test]
    fn offloads_are_shown_with_their_reason() {
        let why = "by default".to_owned();
        let all = OffloadStats {
            offered: vec!["checksum".into(), "tcp4".into()],
            why,
            received: 1,
            passed_on: 2,
            completed: 3,
            merged: 20,
            messages: 4,
        };
        let none = OffloadStats { why: "the port is mapped".into(), ..OffloadStats::default() };
        let port = |name: &str, offloads| PortSummary { name: name.into(), offloads, ..PortSummary::default() };
        let shown = ports(&[port("a", Some(all)), port("b", Some(none)), port("c", None)]);
        let rows: Vec<Vec<&str>> = shown.lines().skip(6).map(|line| line.split_whitespace().collect()).collect();
        let expected = [
            &["a", "checksum", "tcp4", "1", "2", "3", "20", "in", "4", "by", "default"][..],
            &["b", "none", "0", "0", "0", "0", "the", "port", "is", "mapped"],
        ];
        assert_eq!(rows, expected, "{shown}");
    }

    #[test]
    fn recordings_are_shown_with_their_losses() {
        let port = PortSummary { name: "a".into(), ..PortSummary::default() };
        assert_eq!(ports(std::slice::from_ref(&port)).lines().count(), 2);
        let lost = [("no-file".to_owned(), 3), ("no-room".to_owned(), 4)].into();
        let state = "No space left on device".to_owned();
        let full = RecordingStats { file: "/a.pcap".into(), written: 1, waiting: 2, lost, state, ..Default::default() };
        let good = RecordingStats { file: "/b.pcap".into(), state: "records".into(), ..Default::default() };
        let shown = ports(&[PortSummary { recordings: vec![full, good], ..port }]);
        let rows: Vec<Vec<&str>> = shown.lines().skip(3).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0][..3], ["PORT", "RECORDED", "TO"], "{shown}");
        let loss = ["7", "(3", "no-file,", "4", "no-room)"];
        assert_eq!(
            rows[1],
            [&["a", "/a.pcap", "1", "2"][..], &loss, &["No", "space", "left", "on", "device"]].concat()
        );
        assert_eq!(rows[2], ["a", "/b.pcap", "0", "0", "0", "records"]);
    }

    #[test]
    fn the_position_of_a_hanging_worker_is_shown() {
        let place = "port \"a\" queue 0 (transmit)".to_owned();
        let hangs = WorkerStats { place: place.clone(), hung_seconds: Some(1.24), ..WorkerStats::default() };
        let shown = workers(&[WorkerStats { place, ..WorkerStats::default() }, hangs]);
        let rows: Vec<&str> = shown.lines().collect();
        assert!(rows[1].contains("runs") && !rows[1].contains("transmit"), "{shown}");
        assert!(rows[2].contains("hangs for 1.2 s at port \"a\" queue 0 (transmit)"), "{shown}");
    }

    #[test]
    fn confinement_names_the_remaining_rights() {
        let off = confinement(&Confined::default());
        assert!(!off.contains("WITHIN REACH") && off.lines().count() == 4, "{off}");
        let place = PermittedPath { path: "/run/m".into(), purpose: "create sockets".into() };
        let capabilities = vec!["CAP_NET_RAW".to_owned()];
        let confined = Confined { enabled: true, capabilities, places: vec![place], ..Confined::default() };
        let shown = confinement(&confined);
        assert!(shown.contains("CAP_NET_RAW") && shown.lines().last().unwrap().contains("/run/m"), "{shown}");
    }
}
