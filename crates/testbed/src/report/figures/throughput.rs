//! Throughput: by offered rate, by size of frames, and by number of pairs.

use super::curves::Plan;
use super::figure::{Figure, Up};
use crate::report::conditions::Axis;
use crate::report::run::{Figures, Run};
use crate::report::selection::at_greatest_rate;
use crate::report::study::Study;
use crate::scenario::{Dimension, Location};

const MPPS: Up = Up { label: "received, Mpps", unit: "Mpps", logarithmic: false };
const BY_SIZE: Plan = Plan {
    id: "sizes",
    title: "Packets by size",
    paper: Some("figure 4b"),
    about: "Small frames show what a switch spends on each frame, large ones what it spends on their bytes.",
    axis: Axis::Size,
    least: 2,
    up: MPPS,
    value: packets,
};
const BITS: Plan = Plan {
    id: "bits",
    title: "Bits by size",
    paper: Some("figure 4c"),
    about: "The same runs, in bits of whole frames.",
    up: Up { label: "received, Gbit/s", unit: "Gbit/s", logarithmic: false },
    value: |figures| figures.bits.map(|bits| bits / 1e9),
    ..BY_SIZE
};
const REMOTE: Plan =
    Plan { id: "remote", title: "Packets by size, between two hosts", paper: Some("figure 4d"), ..BY_SIZE };
const OFFERED: Plan = Plan {
    id: "offered",
    title: "Delivered, of what is offered",
    paper: Some("figure 4a"),
    about: "Up to its limit, a switch delivers everything.",
    axis: Axis::Rate,
    least: 2,
    up: MPPS,
    value: packets,
};
const PAIRS: Plan = Plan {
    id: "pairs",
    title: "Several pairs at a time",
    paper: Some("figures 4e to 4h"),
    about: "The sum over all pairs.",
    axis: Axis::Pairs,
    ..BY_SIZE
};
const FAIRNESS: Plan = Plan {
    id: "fairness",
    title: "Fairness between pairs",
    paper: None,
    about: "Jain's index of the pairs' rates: 1 if all get the same, 1/n if one of n gets everything.",
    least: 1,
    up: Up { label: "Jain's index", unit: "", logarithmic: false },
    value: |figures| figures.fairness,
    ..PAIRS
};

/// Draws the figures.
pub fn figures(study: &Study) -> Vec<Figure> {
    let drawn = [
        OFFERED.draw(study, |runs| of_fewest_pairs(throughput(runs))),
        BY_SIZE.draw(study, |runs| at(Location::Local, of_fewest_pairs(fastest(runs)))),
        BITS.draw(study, |runs| at(Location::Local, of_fewest_pairs(fastest(runs)))),
        REMOTE.draw(study, |runs| at(Location::Remote, of_fewest_pairs(fastest(runs)))),
        PAIRS.draw(study, fastest),
        FAIRNESS.draw(study, fastest),
    ];
    drawn.into_iter().flatten().collect()
}

fn throughput(runs: &[Run]) -> Vec<&Run> {
    runs.iter().filter(|run| run.point.dimension == Dimension::Throughput).collect()
}

/// Returns those of them at the greatest rate.
pub fn fastest(runs: &[Run]) -> Vec<&Run> {
    at_greatest_rate(throughput(runs))
}

/// Keeps the runs of the fewest pairs: more of them have a figure of their own.
fn of_fewest_pairs(runs: Vec<&Run>) -> Vec<&Run> {
    let fewest = runs.iter().map(|run| run.point.pairs).min();
    runs.into_iter().filter(|run| Some(run.point.pairs) == fewest).collect()
}

fn at(location: Location, runs: Vec<&Run>) -> Vec<&Run> {
    runs.into_iter().filter(|run| run.point.location == location).collect()
}

fn packets(figures: &Figures) -> Option<f64> {
    figures.packets.map(|packets| packets / 1e6)
}
