//! Time that packets take through a node and its network function, as in figure 11 of the paper: without aggregation, and with
//! packets split and joined in different places.

mod chart;

use super::AggregationError;
use super::rig::{Between, Placement};
use super::single_node::{self, Case, Measuring, Results, Row, Sample, millions};
use clap::Args;
use std::fmt::Write;

/// How long packets take.
#[derive(Clone, Debug, Args)]
pub struct Latency {
    /// Where packets are split and joined
    #[arg(long, value_enum, value_delimiter = ',', default_value = "none,vhost,nf,native")]
    placement: Vec<Placement>,
    /// Millions of packets a second
    #[arg(long, value_delimiter = ',', default_value = "0.05,1", value_parser = millions)]
    rate: Vec<f64>,
    /// Packets in a row; 1 is smooth traffic
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    train: u16,
    /// Packets of a train are joined before they come to a node that aggregates
    #[arg(long)]
    joined: bool,
    #[command(flatten)]
    measuring: Measuring,
}

/// Measures, prints, and writes the results to files.
pub fn run(options: &Latency) -> Result<(), AggregationError> {
    let case = |&placement: &Placement| {
        let joined = options.joined && placement != Placement::None;
        Case { path: Between::Rings, placement, train: options.train, joined }
    };
    let cases: Vec<Case> = options.placement.iter().map(case).collect();
    let (results, outcome) = single_node::measure(&options.measuring, &cases, &options.rate)?;
    if !results.rows.is_empty() {
        let pictures = [("latency.svg", chart::svg(&results, &options.rate))];
        single_node::finish(&options.measuring, "latency", &results, &table(&results, &options.rate), &pictures)?;
    }
    outcome
}

fn table(results: &Results, rates: &[f64]) -> String {
    let mut out = "| Mpps | placement | median, us | times none | 90 %, us | 99 %, us | 99.9 %, us | times none | mean, us | \
                   frames, % of packets | node's cycles a packet | lost |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for rate in rates {
        for row in results.rows.iter().filter(|row| row.rate == *rate) {
            out += &line(results, row);
        }
    }
    out + &results.foot()
}

fn line(results: &Results, row: &Row) -> String {
    let mut out = format!("| {} | {} |", row.rate, row.case.placement);
    let against = |figure: fn(&Sample) -> f64| {
        let ratio = results.without(row).and_then(|none| row.ratio(none, figure));
        ratio.map_or("-".to_owned(), |r| format!("{:.3} ({:.3}..{:.3})", r.median, r.min, r.max))
    };
    let median = |figure: fn(&Sample) -> f64| row.spread(figure).median;
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        " {:.3} | {} | {:.3} | {:.3} | {:.2} | {} | {:.3} | {:.1} | {:.0} | {} |",
        median(|s| s.times.p50),
        against(|s| s.times.p50),
        median(|s| s.times.p90),
        median(|s| s.times.p99),
        median(|s| s.times.p999),
        against(|s| s.times.p999),
        median(|s| s.times.mean),
        median(|s| s.frames_percent()),
        median(|s| s.cycles),
        row.samples.iter().map(|s| s.lost).sum::<u64>(),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::single_node::tests::{case, results};
    use super::*;

    #[test]
    fn every_placement_is_compared_with_none() {
        let cases = [Placement::None, Placement::Nf].map(|placement| case(Between::Rings, placement));
        let results = results(&cases, &[0.05, 1.0]);
        let text = table(&results, &[0.05, 1.0]);
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("| nf |")).collect();
        assert_eq!(lines.len(), 2, "{text}");
        // One microsecond, and two.
        assert!(lines[0].starts_with("| 0.05 | nf | 2.04") && lines[0].contains("| 1.95"), "{text}");
        let picture = chart::svg(&results, &[0.05, 1.0]);
        assert_eq!(picture.matches("stroke-width=\"1.5\"").count(), 4);
        assert!(
            picture.contains("1 Mpps") && picture.contains("nf: median 2.0") && !picture.contains("NaN"),
            "{picture}"
        );
    }
}
