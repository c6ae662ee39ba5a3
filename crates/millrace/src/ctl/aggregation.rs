//! Text tables of `ctl aggregation`.

use super::tables::{ratio, table, text};
use api::Aggregation;
use engine::stats::{AggregationFlow, AggregationSide, AggregationStats, PACKETS_BOUNDS, SIZE_BOUNDS};

/// Flows listed for each next hop; `--json` prints all.
const LISTED: usize = 8;

pub(super) fn show(aggregation: &Aggregation) -> String {
    let Some(stats) = &aggregation.stats else {
        return "Aggregation is not configured.".to_owned();
    };
    let parts = [next_hops(stats, &aggregation.table), ports(stats), sizes(stats), held(stats)];
    let chains = format!(
        "{} service chains by {}, MTU {}.",
        stats.flows,
        if stats.service_chain_id == "vni" { "VNI" } else { "VLAN" },
        stats.mtu
    );
    let relayed = if stats.relayed > 0 { format!(" {} frames relayed flows.", stats.relayed) } else { String::new() };
    format!("{chains}{relayed}\n\n{}", parts.join("\n\n"))
}

/// Formats the packets per frame.
fn per_frame(packets: u64, frames: u64) -> String {
    ratio(packets, frames).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
}

fn next_hops(stats: &AggregationStats, flows: &[AggregationFlow]) -> String {
    let header = ["NFI", "ADDRESS", "MAC", "PORT", "AGGREGATES", "PACKETS IN THEM", "RATIO", "CHAINS"];
    let mut out = table(&header, 4..7);
    for hop in &stats.next_hops {
        let chains: Vec<String> =
            flows.iter().filter(|flow| flow.nfi == hop.nfi).map(|flow| flow.sc.to_string()).collect();
        let more = if chains.len() > LISTED { format!(" and {} more", chains.len() - LISTED) } else { String::new() };
        out.add_row([
            hop.nfi.to_string(),
            hop.ip.clone().unwrap_or_else(|| "-".to_owned()),
            hop.mac.clone(),
            hop.port.clone().unwrap_or_else(|| "any".to_owned()),
            hop.aggregates.to_string(),
            hop.packets.to_string(),
            per_frame(hop.packets, hop.aggregates),
            chains[..chains.len().min(LISTED)].join(" ") + &more,
        ]);
    }
    text(&out)
}

/// Returns both directions of every port.
fn sides(stats: &AggregationStats) -> impl Iterator<Item = (&str, &'static str, &AggregationSide)> {
    stats
        .ports
        .iter()
        .flat_map(|port| [(port.port.as_str(), "in", &port.received), (port.port.as_str(), "out", &port.sent)])
}

fn ports(stats: &AggregationStats) -> String {
    let mut out = table(&["PORT", "WAY", "PACKETS", "FRAMES", "AGGREGATES", "RATIO"], 2..6);
    for (port, way, side) in sides(stats) {
        out.add_row([
            port.to_owned(),
            way.to_owned(),
            side.packets.to_string(),
            side.frames.to_string(),
            side.aggregates.to_string(),
            per_frame(side.packets, side.frames),
        ]);
    }
    text(&out)
}

fn histogram(
    stats: &AggregationStats,
    title: &str,
    bounds: &[u32],
    classes: impl Fn(&AggregationSide) -> Vec<u64>,
) -> String {
    let columns: Vec<String> = bounds.iter().map(|bound| format!("<={bound}")).collect();
    let header: Vec<&str> = ["PORT", "WAY"].into_iter().chain(columns.iter().map(String::as_str)).collect();
    let mut out = table(&header, 2..header.len());
    for (port, way, side) in sides(stats) {
        let counts = classes(side).into_iter().map(|count| count.to_string());
        out.add_row([port.to_owned(), way.to_owned()].into_iter().chain(counts));
    }
    format!("{title}\n{}", text(&out))
}

fn sizes(stats: &AggregationStats) -> String {
    histogram(stats, "Frames by length:", &SIZE_BOUNDS, |side| side.sizes.to_vec())
}

fn held(stats: &AggregationStats) -> String {
    histogram(stats, "Frames by packets in them:", &PACKETS_BOUNDS, |side| side.held.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::stats::{AggregationPort, NextHopStats};

    #[test]
    fn next_hops_ports_and_histograms_are_shown() {
        let hop = NextHopStats { nfi: 7, aggregates: 9, packets: 198, ..NextHopStats::default() };
        let mut sent = AggregationSide { packets: 220, frames: 10, aggregates: 9, ..AggregationSide::default() };
        (sent.sizes[5], sent.held[5]) = (10, 9);
        let port = AggregationPort { port: "wan".into(), sent, ..AggregationPort::default() };
        let stats = AggregationStats {
            service_chain_id: "vlan".into(),
            flows: 10,
            next_hops: vec![hop],
            ports: vec![port],
            ..AggregationStats::default()
        };
        let table = (1..=10).map(|sc| AggregationFlow { sc, nfi: 7 }).collect();
        let shown = show(&Aggregation { stats: Some(stats), table });
        let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0][..2], ["10", "service"]);
        assert_eq!(rows[3][..3], ["7", "-", "any"], "{shown}");
        assert_eq!(rows[3][3..6], ["9", "198", "22.00"], "{shown}");
        assert!(shown.contains("1 2 3 4 5 6 7 8 and 2 more"), "{shown}");
        assert!(rows.contains(&vec!["wan", "out", "0", "0", "0", "0", "0", "10", "0"]), "{shown}");
        assert!(rows.contains(&vec!["wan", "in", "0", "0", "0", "-"]), "{shown}");
        assert_eq!(show(&Aggregation::default()), "Aggregation is not configured.");
    }
}
