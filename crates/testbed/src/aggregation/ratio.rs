//! Number of frames that packets leave in, as in table 2 of the paper: packets of a VLAN pass a network function, and the
//! switch joins those that it finds together in the function's ring.

use super::AggregationError;
use super::rig::{Between, Placement};
use super::single_node::{self, Case, Measuring, Results, Row, millions};
use crate::draw::{self, Line, Lines};
use clap::Args;
use std::fmt::Write;

/// How many frames packets leave in.
#[derive(Clone, Debug, Args)]
pub struct Ratio {
    /// How packets leave the node: by rings, af_packet or af_xdp
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        value_delimiter = ',',
        default_value = "rings,af_packet,af_xdp"
    )]
    path: Vec<Between>,
    /// Millions of packets a second
    #[arg(long, value_delimiter = ',', default_value = "0.1,1,2,4,6,8", value_parser = millions)]
    rate: Vec<f64>,
    /// Packets in a row; 1 is smooth traffic
    #[arg(long, value_delimiter = ',', default_value = "1,32", value_parser = clap::value_parser!(u16).range(1..=256))]
    train: Vec<u16>,
    #[command(flatten)]
    measuring: Measuring,
}

impl Ratio {
    fn cases(&self) -> Vec<Case> {
        let case = |path| move |&train: &u16| Case { path, placement: Placement::Vhost, train, joined: false };
        self.path.iter().flat_map(|&path| self.train.iter().map(case(path))).collect()
    }
}

/// Measures, prints, and writes the results to files.
pub fn run(options: &Ratio) -> Result<(), AggregationError> {
    let (results, outcome) = single_node::measure(&options.measuring, &options.cases(), &options.rate)?;
    if !results.rows.is_empty() {
        let pictures = [("ratio.svg", picture(&results, options))];
        single_node::finish(&options.measuring, "ratio", &results, &table(&results), &pictures)?;
    }
    outcome
}

/// Describes the traffic: smooth, or how many packets in a row.
fn shape(train: u16) -> String {
    if train == 1 { "smooth".to_owned() } else { format!("{train} in a row") }
}

fn table(results: &Results) -> String {
    let mut out =
        "| path | traffic | sent, Mpps | frames, % of packets | lost, % | sent at once | node's cycles a packet | \
                   traffic busy |\n|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for row in &results.rows {
        let median = |figure: fn(&single_node::Sample) -> f64| row.spread(figure).median;
        let frames = row.spread(|sample| sample.frames_percent());
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "| {} | {} | {} | {:.1} ({:.1}..{:.1}) | {:.2} | {:.1} | {:.0} | {:.0} % |",
            row.case.path,
            shape(row.case.train),
            row.rate,
            frames.median,
            frames.min,
            frames.max,
            median(|sample| sample.lost_percent()),
            median(|sample| sample.at_once),
            median(|sample| sample.cycles),
            100.0 * median(|sample| sample.traffic_busy),
        );
    }
    out + &results.foot()
}

fn picture(results: &Results, options: &Ratio) -> String {
    let value = |case: Case, rate: &f64| {
        results.row(case, *rate).map(|row: &Row| row.spread(|sample| sample.frames_percent()).median)
    };
    let line = |path, train| {
        let case = Case { path, placement: Placement::Vhost, train, joined: false };
        Line { name: shape(train), values: options.rate.iter().map(|rate| value(case, rate)).collect() }
    };
    let panel = |&path: &Between| (path.to_string(), options.train.iter().map(|&train| line(path, train)).collect());
    draw::svg(&Lines {
        title: "Frames in percent of packets".into(),
        axis: "packets sent, Mpps".into(),
        marks: options.rate.iter().map(f64::to_string).collect(),
        panels: options.path.iter().map(panel).collect(),
        limits: Vec::new(),
        foot: results.rig.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::single_node::tests::results;
    use super::*;
    use clap::Parser;

    #[test]
    fn every_path_and_shape_has_its_line() {
        let words = ["ratio", "--path", "rings,af_xdp", "--train", "1,32", "--rate", "0.1,2"];
        let options = Options::parse_from(words).ratio;
        let cases = options.cases();
        let results = results(&cases, &options.rate);
        let text = table(&results);
        for expected in
            ["| rings | smooth | 0.1 | 10.0 (10.0..10.0) | 10.00 |", "| af_xdp | 32 in a row | 2 |", "beware"]
        {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
        let picture = picture(&results, &options);
        assert_eq!(picture.matches("<circle").count(), 8);
        assert!(picture.contains("af_xdp") && picture.contains("smooth"), "{picture}");
    }

    #[derive(clap::Parser)]
    struct Options {
        #[command(flatten)]
        ratio: Ratio,
    }
}
