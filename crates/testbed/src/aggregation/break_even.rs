//! The cost of a hop from which joining and splitting pays: their cost, by `cargo bench -p millrace-paflow`, compared with the
//! cost of a hop, by `testbed aggregation throughput`.

use super::AggregationError;
use crate::draw::Svg;
use clap::Args;
use serde::Deserialize;
use std::path::PathBuf;

/// From which cost of a hop on aggregation pays.
#[derive(Clone, Debug, Args)]
pub struct BreakEven {
    /// File with the output of `cargo bench -p millrace-paflow`
    #[arg(value_name = "COST")]
    pub cost: PathBuf,
    /// Files with the results of `testbed aggregation throughput`, as it wrote them
    #[arg(value_name = "RESULTS.json", required = true)]
    pub results: Vec<PathBuf>,
    /// The picture
    #[arg(long, value_name = "SVG", default_value = "break-even.svg")]
    pub out: PathBuf,
}

/// Draws the picture.
pub fn run(options: &BreakEven) -> Result<(), AggregationError> {
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).map_err(|source| AggregationError::Read { path: path.clone(), source })
    };
    let mut all = Vec::new();
    for path in &options.results {
        let results = serde_json::from_str(&read(path)?)
            .map_err(|source| AggregationError::Read { path: path.clone(), source: source.into() })?;
        all.extend(hops(&results));
    }
    let picture = picture(&points(&read(&options.cost)?), &all);
    std::fs::write(&options.out, picture)
        .map_err(|source| AggregationError::Write { path: options.out.clone(), source })
}

/// The part of the results that is read.
#[derive(Deserialize)]
struct Results {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    path: String,
    size: u32,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    placement: String,
    loads: Vec<Load>,
}

#[derive(Deserialize)]
struct Load {
    mpps: f64,
}

/// Returns the nanoseconds that a hop (a node with its function) takes per packet without aggregation, by path: the interval
/// between two packets of the smallest size at the best load.
fn hops(results: &Results) -> Vec<(String, f64)> {
    let smallest = results.rows.iter().map(|row| row.size).min();
    let rows = results.rows.iter().filter(|row| Some(row.size) == smallest);
    rows.filter_map(|row| {
        let loads = row.runs.iter().filter(|run| run.placement == "none").flat_map(|run| &run.loads);
        let best = loads.map(|load| load.mpps).max_by(f64::total_cmp).filter(|best| *best > 0.0)?;
        Some((row.path.clone(), 1e3 / best))
    })
    .collect()
}

/// Returns packet sizes with the minimum cost of a hop in nanoseconds: joining n packets saves n-1 hops.
fn points(cost: &str) -> Vec<(f64, f64)> {
    // "join, 22 packets of 64 bytes    6.60 ns per packet", and the same of "split".
    let figure = |line: &str, what: &str| -> Option<(f64, f64, f64)> {
        let words: Vec<&str> = line.strip_prefix(what)?.split_ascii_whitespace().collect();
        Some((words.first()?.parse().ok()?, words.get(3)?.parse().ok()?, words.get(5)?.parse().ok()?))
    };
    let joins = cost.lines().filter_map(|line| figure(line, "join, "));
    joins
        .filter_map(|(count, size, join)| {
            let mut splits = cost.lines().filter_map(|line| figure(line, "split, "));
            let (.., split) = splits.find(|(_, other, _)| *other == size)?;
            Some((size, (join + split) * count / (count - 1.0)))
        })
        .collect()
}

const LEFT: f64 = 60.0;
const PLOT: f64 = 400.0;
const BOTTOM: f64 = 250.0;
const HEIGHT: f64 = 220.0;
/// Nanoseconds at the top.
const MOST: f64 = 3000.0;

/// Draws nanoseconds on a logarithmic axis over bytes.
fn picture(points: &[(f64, f64)], hops: &[(String, f64)]) -> String {
    let first = points.first().map_or(64.0, |point| point.0);
    let last = points.last().map_or(1024.0, |point| point.0).max(first + 1.0);
    let x = |size: f64| LEFT + (size - first) / (last - first) * PLOT;
    let y = |ns: f64| BOTTOM - ns.max(1.0).ln() / MOST.ln() * HEIGHT;
    let across = |ns: f64| [(LEFT, y(ns)), (LEFT + PLOT, y(ns))];
    let mut svg = Svg::new(660.0, 300.0);
    svg.label((LEFT, 16.0), "start", 12, "ns a packet and hop: above the line, aggregation pays");
    for ns in [1.0, 10.0, 100.0, 1000.0] {
        svg.line(&across(ns), "#d8d8d8", "");
        svg.label((LEFT - 6.0, y(ns) + 4.0), "end", 12, &format!("{ns}"));
    }
    let mut hops: Vec<_> = hops.iter().collect();
    hops.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut free = 0.0;
    for (path, ns) in hops {
        svg.line(&across(*ns), "#1f4e79", "stroke-dasharray=\"5 3\"");
        // Names of lines that are close together are moved below each other.
        let at = (y(*ns) + 4.0).max(free);
        free = at + 14.0;
        svg.label((LEFT + PLOT + 6.0, at), "start", 12, &format!("{path}, {ns:.0} ns"));
    }
    let line: Vec<_> = points.iter().map(|&(size, ns)| (x(size), y(ns))).collect();
    svg.line(&line, "#b02030", "stroke-width=\"2\"");
    for (&(size, _), &at) in points.iter().zip(&line) {
        svg.dot(at, "#b02030");
        svg.label((x(size), BOTTOM + 18.0), "middle", 12, &format!("{size}"));
    }
    svg.label((LEFT + PLOT / 2.0, 290.0), "middle", 12, "bytes a packet");
    svg.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_saved_has_to_pay_for_joining_and_splitting() {
        let cost = "group, one next hop                            2.11 ns per packet
join, 22 packets of 64 bytes                   6.60 ns per packet
split, 22 packets of 64 bytes                  3.64 ns per packet
join, 2 packets of 702 bytes                  17.15 ns per packet
split, 2 packets of 702 bytes                 13.37 ns per packet";
        let points = points(cost);
        assert_eq!(points.iter().map(|p| (p.0, p.1.round())).collect::<Vec<_>>(), [(64.0, 11.0), (702.0, 61.0)]);
        let results = r#"{"rows": [
            {"path": "rings", "size": 64, "runs": [
                {"placement": "none", "loads": [{"mpps": 2.0}, {"mpps": 5.0}]},
                {"placement": "nf", "loads": [{"mpps": 20.0}]}]},
            {"path": "rings", "size": 512, "runs": [{"placement": "none", "loads": [{"mpps": 1.0}]}]}]}"#;
        let hops = hops(&serde_json::from_str(results).unwrap());
        assert_eq!(hops, [("rings".to_owned(), 200.0)]);
        let picture = picture(&points, &hops);
        assert!(picture.contains("rings, 200 ns") && picture.matches("<circle").count() == 2, "{picture}");
    }
}
