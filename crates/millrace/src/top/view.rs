//! The views: rates, as tables.

use super::grid::{Cell, Column, Grid, Row, Tone};
use super::rates::{Aggregation, Dropped, Joined, Mapping, Port, PortMapping, Rates, Worker};
use crate::ctl::tables::scaled;
use engine::drops::REASONS;

/// Share of time from which a worker is called busy: little more traffic would fill it.
const NEARLY_FULL: f64 = 0.95;

/// A view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum View {
    #[default]
    Ports,
    Drops,
    Workers,
    Mappings,
    Aggregation,
}

impl View {
    pub(super) const ALL: [View; 5] = [View::Ports, View::Drops, View::Workers, View::Mappings, View::Aggregation];

    pub(super) fn name(self) -> &'static str {
        match self {
            View::Ports => "Ports",
            View::Drops => "Drops",
            View::Workers => "Workers",
            View::Mappings => "Mappings",
            View::Aggregation => "Aggregation",
        }
    }

    /// Returns the view `steps` further to the right, round and round.
    pub(super) fn after(self, steps: usize) -> View {
        Self::ALL[(self as usize + steps) % Self::ALL.len()]
    }

    pub(super) fn grid(self, rates: &Rates) -> Grid {
        let (columns, numbers, rows, empty) = match self {
            View::Ports => (PORTS, 2..7, rates.ports.iter().map(port).collect(), "No ports are configured."),
            View::Drops => (DROPS, 3..5, drops(&rates.drops), "No frames were dropped."),
            View::Workers => (WORKERS, 2..6, rates.workers.iter().map(worker).collect(), "There are no workers."),
            View::Mappings => (MAPPINGS, 3..9, rates.mappings.iter().map(mapping).collect(), "There are no mappings."),
            View::Aggregation => {
                let rows = rates.aggregation.as_ref().map(aggregation).unwrap_or_default();
                (AGGREGATION, 1..5, rows, "Aggregation is not configured.")
            }
        };
        Grid { columns, numbers, rows, empty }
    }
}

macro_rules! columns {
    ($($name:literal: $meaning:literal,)*) => { &[$(Column { name: $name, meaning: $meaning },)*] };
}

const PORTS: &[Column] = columns! {
    "PORT": "its name",
    "STATE": "whether frames can pass",
    "RX pps": "frames a second that the switch took from it",
    "RX bit/s": "their bits",
    "TX pps": "frames a second that the switch put into it",
    "TX bit/s": "their bits",
    "DROPS/s": "frames a second that ended here",
    "MAPPING": "whether its frames stay in a guest's buffers, or are copied",
    "FORWARDING": "where its frames go",
    "DRIVER": "its driver",
    "DETAIL": "why it copies or is down, or what was negotiated",
};

fn port(port: &Port) -> Row {
    let (mapping, tone, why) = match &port.mapping {
        None => ("-".to_owned(), Tone::Normal, String::new()),
        Some(mapping) => in_place(mapping),
    };
    let state = if port.up { Cell::text("up") } else { Cell::text("down").toned(Tone::Bad) };
    let detail = [why.as_str(), &port.detail].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>();
    let detail = detail.join("; ");
    Row {
        key: port.port.clone(),
        detail: format!("{} ({}, {}): {detail}", port.port, port.driver, port.forwarding),
        cells: vec![
            Cell::text(&port.port),
            state,
            Cell::number(port.rx_packets_per_second, scaled),
            Cell::number(port.rx_bits_per_second, scaled),
            Cell::number(port.tx_packets_per_second, scaled),
            Cell::number(port.tx_bits_per_second, scaled),
            rate_of_loss(port.drops_per_second),
            Cell::text(mapping).toned(tone),
            Cell::text(&port.forwarding),
            Cell::text(&port.driver),
            Cell::text(detail),
        ],
    }
}

/// Says whether frames of a port's queues stay in place, and why not.
fn in_place(mapping: &PortMapping) -> (String, Tone, String) {
    let PortMapping { queues, in_place, reason } = mapping;
    let why = reason.as_ref().map(|reason| format!("copied: {reason}")).unwrap_or_default();
    match in_place {
        0 => ("copied".to_owned(), Tone::Warning, why),
        all if all == queues => ("in place".to_owned(), Tone::Normal, String::new()),
        some => (format!("{some} of {queues}"), Tone::Warning, why),
    }
}

fn rate_of_loss(rate: f64) -> Cell {
    Cell::number(rate, scaled).toned(if rate > 0.0 { Tone::Warning } else { Tone::Normal })
}

const DROPS: &[Column] = columns! {
    "PORT": "where frames ended",
    "STAGE": "the stage of the port that dropped them; queue and forward are no stages",
    "REASON": "why; docs/troubleshooting.md says what to do",
    "DROPS/s": "frames a second",
    "FRAMES": "frames since the port was added",
};

/// Returns the rows, those that grow fastest first.
fn drops(drops: &[Dropped]) -> Vec<Row> {
    let mut drops: Vec<_> = drops.iter().collect();
    drops.sort_by(|a, b| b.drops_per_second.total_cmp(&a.drops_per_second));
    drops.into_iter().map(dropped).collect()
}

fn dropped(drop: &Dropped) -> Row {
    let meaning = REASONS.iter().find(|(name, _)| *name == drop.reason).map_or("", |(_, meaning)| meaning.trim());
    Row {
        key: format!("{} {} {}", drop.port, drop.stage, drop.reason),
        detail: format!("{}: {meaning}", drop.reason),
        cells: vec![
            Cell::text(&drop.port),
            Cell::text(&drop.stage),
            Cell::text(&drop.reason),
            rate_of_loss(drop.drops_per_second),
            Cell::number(drop.frames as f64, |_| drop.frames.to_string()),
        ],
    }
}

const WORKERS: &[Column] = columns! {
    "WORKER": "its number",
    "CPU": "the processor that it is pinned to",
    "BUSY": "share of the time in which it moved frames",
    "pps": "frames a second that it received",
    "CYCLES": "cycles for each of them",
    "SLEEPS/s": "how often it went to sleep, each second",
    "STATE": "whether it runs, or hangs and where",
    "STAGES": "cycles per frame of each step and stage, sampled",
    "QUEUES": "the queues that it polls, and its parts of those that several workers share: parent, lane",
    "IDLE": "how it rests: poll, backoff or sleep",
};

fn worker(worker: &Worker) -> Row {
    let stages: Vec<_> = worker.stages.iter().map(|(stage, cycles)| format!("{stage} {cycles:.0}")).collect();
    let whole: f64 = worker.stages.values().sum();
    let shares = worker.stages.iter().map(|(stage, cycles)| {
        format!("{stage} {cycles:.0} cycles ({:.0} %)", 100.0 * cycles / whole.max(f64::MIN_POSITIVE))
    });
    let shares: Vec<_> = shares.collect();
    let state = match worker.hung_seconds {
        None => Cell::text("runs"),
        Some(time) => Cell::text(format!("hangs for {time:.1} s at {}", worker.place)).toned(Tone::Bad),
    };
    let tone = if worker.busy >= NEARLY_FULL { Tone::Warning } else { Tone::Normal };
    Row {
        key: worker.worker.to_string(),
        detail: format!(
            "worker {}: {}. Polls {}.",
            worker.worker,
            or_dash(&shares, ", "),
            or_dash(&worker.queues, " ")
        ),
        cells: vec![
            Cell::text(worker.worker.to_string()),
            Cell::text(worker.cpu.map_or("any".to_owned(), |cpu| cpu.to_string())),
            Cell::number(worker.busy, |busy| format!("{:.0} %", busy * 100.0)).toned(tone),
            Cell::number(worker.packets_per_second, scaled),
            Cell::number(worker.cycles_per_packet, |cycles| format!("{cycles:.0}")),
            Cell::number(worker.sleeps_per_second, scaled),
            state,
            Cell::text(or_dash(&stages, ", ")),
            Cell::text(or_dash(&worker.queues, " ")),
            Cell::text(&worker.idle),
        ],
    }
}

fn or_dash(parts: &[String], separator: &str) -> String {
    if parts.is_empty() { "-".to_owned() } else { parts.join(separator) }
}

const MAPPINGS: &[Column] = columns! {
    "FROM": "the physical queue",
    "TO": "the guest's queue",
    "STATE": "whether frames are received into the guest's buffers",
    "RX PLACED": "frames a second that were received into the guest's buffers",
    "RX COPIED": "frames a second that were received into buffers of the switch",
    "TX PLACED": "frames of the guest that were sent without a copy, each second",
    "TX COPIED": "frames that were sent after a copy, each second",
    "ELSEWHERE": "of RX PLACED, frames for others, which were copied or dropped",
    "ON LOAN": "buffers of the guest that the physical queue has now",
    "MODE": "bridge or pass-through",
    "WHY": "why frames are copied",
};

fn mapping(mapping: &Mapping) -> Row {
    let why = mapping.reason.clone().unwrap_or_default();
    let state = if mapping.zero_copy { Cell::text("in place") } else { Cell::text("copied").toned(Tone::Warning) };
    let said = if mapping.zero_copy { "frames stay in the guest's buffers" } else { "frames are copied: " };
    Row {
        key: format!("{} {}", mapping.from, mapping.to),
        detail: format!("{} to {} ({}): {said}{why}", mapping.from, mapping.to, mapping.mode),
        cells: vec![
            Cell::text(&mapping.from),
            Cell::text(&mapping.to),
            state,
            Cell::number(mapping.in_place_per_second, scaled),
            Cell::number(mapping.copied_per_second, scaled),
            Cell::number(mapping.sent_in_place_per_second, scaled),
            Cell::number(mapping.sent_copied_per_second, scaled),
            Cell::number(mapping.elsewhere_per_second, scaled),
            Cell::number(mapping.on_loan as f64, |_| mapping.on_loan.to_string()),
            Cell::text(&mapping.mode),
            Cell::text(why),
        ],
    }
}

const AGGREGATION: &[Column] = columns! {
    "AT": "a next hop, by its number, or one way of a port",
    "PACKETS/s": "packets a second, joined or not; to a next hop, those in aggregates",
    "FRAMES/s": "frames a second that held them; to a next hop, aggregates",
    "JOINED/s": "of these, frames that hold an aggregate",
    "PACKETS/FRAME": "packets in each frame",
    "CHAINS": "service chains whose packets go to the next hop",
    "PORT": "the port that leads to it",
    "ADDRESS": "its addresses",
};

fn aggregation(aggregation: &Aggregation) -> Vec<Row> {
    let hops = aggregation.next_hops.iter().map(|hop| {
        let address = hop.ip.as_ref().map_or_else(|| hop.mac.clone(), |ip| format!("{ip} {}", hop.mac));
        let port = hop.port.as_deref().unwrap_or("any");
        let detail = format!("next hop {} at {address} by port {port}: {} service chains", hop.nfi, hop.chains);
        joined(format!("hop {}", hop.nfi), &hop.sent, [hop.chains.to_string(), port.to_owned(), address], detail)
    });
    let ports = aggregation.ports.iter().flat_map(|port| {
        [("in", &port.received, "from"), ("out", &port.sent, "to")].map(|(way, side, preposition)| {
            let detail = format!("{}: frames {preposition} the network", port.port);
            let blank = ["-".to_owned(), port.port.clone(), "-".to_owned()];
            joined(format!("{} {way}", port.port), side, blank, detail)
        })
    });
    hops.chain(ports).collect()
}

fn joined(at: String, joined: &Joined, texts: [String; 3], detail: String) -> Row {
    let numbers = [joined.packets_per_second, joined.frames_per_second, joined.aggregates_per_second];
    let mut cells = vec![Cell::text(&at)];
    cells.extend(numbers.map(|rate| Cell::number(rate, scaled)));
    cells.push(Cell::number(joined.packets_per_frame, |ratio| format!("{ratio:.2}")));
    cells.extend(texts.map(Cell::text));
    Row { key: at, cells, detail }
}

#[cfg(test)]
mod tests {
    use super::super::rates::NextHop;
    use super::*;

    /// Returns the texts of a view's first row, by column, and the row.
    fn first(view: View, rates: &Rates) -> (Vec<(&'static str, String)>, Row) {
        let grid = view.grid(rates);
        let row = grid.rows[0].clone();
        assert_eq!(row.cells.len(), grid.columns.len());
        (grid.columns.iter().zip(&row.cells).map(|(column, cell)| (column.name, cell.text.clone())).collect(), row)
    }

    fn has(cells: &[(&str, String)], name: &str, text: &str) -> bool {
        cells.iter().any(|(column, cell)| *column == name && cell == text)
    }

    #[test]
    fn a_port_says_why_it_copies_and_why_it_is_down() {
        let mapping = PortMapping { queues: 1, in_place: 0, reason: Some("no huge pages".into()) };
        let port = Port { port: "wan".into(), detail: "no carrier".into(), mapping: Some(mapping), ..Port::default() };
        let (cells, row) = first(View::Ports, &Rates { ports: vec![port], ..Rates::default() });
        assert!(has(&cells, "STATE", "down") && has(&cells, "MAPPING", "copied"), "{cells:?}");
        assert!(has(&cells, "DETAIL", "copied: no huge pages; no carrier"), "{cells:?}");
        assert_eq!(row.cells[1].tone, Tone::Bad);
        assert!(row.detail.ends_with("no carrier"), "{}", row.detail);
    }

    #[test]
    fn some_queues_in_place_are_counted() {
        let shown = |in_place| in_place_text(&PortMapping { queues: 3, in_place, reason: None });
        assert_eq!([0, 2, 3].map(shown), ["copied", "2 of 3", "in place"]);
    }

    fn in_place_text(mapping: &PortMapping) -> String {
        in_place(mapping).0
    }

    #[test]
    fn drops_that_grow_fastest_come_first_with_their_meaning() {
        let drop =
            |reason: &str, drops_per_second| Dropped { reason: reason.into(), drops_per_second, ..Dropped::default() };
        let rates = Rates { drops: vec![drop("busy", 0.0), drop("no-buffers", 5.0)], ..Rates::default() };
        let (cells, row) = first(View::Drops, &rates);
        assert!(has(&cells, "REASON", "no-buffers") && has(&cells, "DROPS/s", "5"), "{cells:?}");
        assert!(row.detail.contains("slower than the traffic to it"), "{}", row.detail);
    }

    #[test]
    fn a_worker_shows_its_stages_and_where_it_hangs() {
        let worker = Worker {
            busy: 0.97,
            hung_seconds: Some(1.24),
            place: "port \"a\" queue 0".into(),
            stages: [("forward".to_owned(), 75.0), ("receive".to_owned(), 25.0)].into(),
            ..Worker::default()
        };
        let (cells, row) = first(View::Workers, &Rates { workers: vec![worker], ..Rates::default() });
        assert!(has(&cells, "BUSY", "97 %") && has(&cells, "CYCLES", "-"), "{cells:?}");
        assert!(has(&cells, "STAGES", "forward 75, receive 25"), "{cells:?}");
        assert!(has(&cells, "STATE", "hangs for 1.2 s at port \"a\" queue 0"), "{cells:?}");
        assert!(row.detail.contains("forward 75 cycles (75 %)"), "{}", row.detail);
    }

    #[test]
    fn mappings_and_next_hops_have_rows() {
        let mapping = Mapping { from: "wan.0".into(), reason: Some("no guest".into()), ..Mapping::default() };
        let sent = Joined { packets_per_frame: Some(22.0), ..Joined::default() };
        let next_hops = vec![NextHop { nfi: 7, sent, mac: "02::1".into(), ..NextHop::default() }];
        let aggregation = Some(Aggregation { next_hops, ports: Vec::new() });
        let rates = Rates { mappings: vec![mapping], aggregation, ..Rates::default() };
        let (cells, _) = first(View::Mappings, &rates);
        assert!(has(&cells, "STATE", "copied") && has(&cells, "WHY", "no guest"), "{cells:?}");
        let (cells, _) = first(View::Aggregation, &rates);
        assert!(has(&cells, "AT", "hop 7") && has(&cells, "PACKETS/FRAME", "22.00"), "{cells:?}");
        assert!(has(&cells, "PORT", "any") && has(&cells, "ADDRESS", "02::1"), "{cells:?}");
    }

    #[test]
    fn views_go_round() {
        assert_eq!(View::Aggregation.after(1), View::Ports);
        assert_eq!(View::Ports.after(View::ALL.len() - 1), View::Aggregation);
    }
}
