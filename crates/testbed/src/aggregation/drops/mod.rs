//! Packets lost by rate, as in table 3 of the paper, and how many of them in a row, as in its figure 12.

mod chart;
mod runs;

use super::AggregationError;
use super::rig::{Between, Placement};
use super::single_node::{self, Case, Measuring, Results, Row, Sample, millions};
use clap::Args;
use runs::Runs;
use std::fmt::Write;

/// How many packets are lost.
#[derive(Clone, Debug, Args)]
pub struct Drops {
    /// How packets leave the node: by rings, af_packet or af_xdp
    #[arg(long, value_enum, hide_possible_values = true, value_delimiter = ',', default_value = "af_packet,rings")]
    path: Vec<Between>,
    /// Where packets are split and joined
    #[arg(long, value_enum, value_delimiter = ',', default_value = "none,vhost,nf,native")]
    placement: Vec<Placement>,
    /// Millions of packets a second
    #[arg(long, value_delimiter = ',', default_value = "0.5,1,2,3,4,5,8,12", value_parser = millions)]
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
pub fn run(options: &Drops) -> Result<(), AggregationError> {
    let case = |path| {
        move |&placement: &Placement| {
            let joined = options.joined && placement != Placement::None;
            Case { path, placement, train: options.train, joined }
        }
    };
    let cases: Vec<Case> = options.path.iter().flat_map(|&path| options.placement.iter().map(case(path))).collect();
    let (results, outcome) = single_node::measure(&options.measuring, &cases, &options.rate)?;
    if !results.rows.is_empty() {
        let pictures = [("drops.svg", chart::losses(&results)), ("runs.svg", chart::runs(&results))];
        single_node::finish(&options.measuring, "drops", &results, &table(&results), &pictures)?;
    }
    outcome
}

fn table(results: &Results) -> String {
    let mut out = "| path | placement | sent, Mpps | through, Mpps | lost, % | lost a second | of these at the NIC, % | in a row: \
                   median | longest | frames, % of packets | traffic busy |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for row in &results.rows {
        out += &line(row);
    }
    out + &results.foot()
}

fn line(row: &Row) -> String {
    let median = |figure: fn(&Sample) -> f64| row.spread(figure).median;
    let lost = row.spread(|sample| sample.lost_percent());
    let runs = Runs::of(row);
    let mut out = format!("| {} | {} | {} |", row.case.path, row.case.placement, row.rate);
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        " {:.2} | {:.2} ({:.2}..{:.2}) | {:.0} | {:.0} | {} | {} | {:.1} | {:.0} % |",
        median(Sample::mpps),
        lost.median,
        lost.min,
        lost.max,
        median(|s| s.lost as f64 / s.seconds),
        median(|s| 100.0 * s.refused as f64 / s.lost.max(1) as f64),
        runs.median(),
        runs.0.last().map_or(0, |(length, _)| *length),
        median(|s| s.frames_percent()),
        100.0 * median(|s| s.traffic_busy),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::single_node::tests::{case, results};
    use super::*;

    #[test]
    fn losses_have_their_line() {
        let results = results(&[case(Between::AfPacket, Placement::Vhost)], &[5.0]);
        let text = table(&results);
        assert!(
            text.contains("| af_packet | vhost | 5 | 0.00 | 10.00 (10.00..10.00) | 100 | 100 | 6 | 6 | 10.0 |"),
            "{text}"
        );
    }

    #[test]
    fn runs_count_by_the_packets_in_them() {
        // Ten lone losses, and one run of 32.
        let runs = Runs(vec![(1, 10), (32, 32)]);
        assert_eq!((runs.lost(), runs.median()), (42, 32));
        assert_eq!(runs.percent(2..=100).map(f64::round), Some(76.0));
        let none = Runs(Vec::new());
        assert_eq!((none.median(), none.percent(1..=1)), (0, None));
    }
}
