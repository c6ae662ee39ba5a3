//! Round trips: by size of bursts, and by share of each switch's own rate without loss.

use super::curves::{Plan, Value};
use super::figure::{Figure, Up};
use crate::report::conditions::Axis;
use crate::report::run::{Figures, Run};
use crate::report::study::Study;
use crate::scenario::Dimension;
use loadgen::app::Latency;

const MICROSECONDS: Up = Up { label: "round trip, microseconds", unit: "\u{b5}s", logarithmic: true };
const BY_BURST: Plan = Plan {
    id: "round-trips",
    title: "Round trips by burst",
    paper: Some("figures 5a to 5f, which show means"),
    about: "The median time from a client to its server and back. Less is better.",
    axis: Axis::Burst,
    least: 2,
    up: MICROSECONDS,
    value: |figures| microseconds(figures, |latency| latency.p50),
};
const UNDER_LOAD: Plan = Plan {
    id: "load",
    title: "Round trips under load",
    paper: None,
    about: "Each switch has a share of the rate that it reached itself without loss. Less is better.",
    axis: Axis::Share,
    ..BY_BURST
};
/// The quantiles that are shown of the distribution under load.
const PARTS: [(&str, Value); 3] = [
    ("half of them are shorter", |figures| microseconds(figures, |latency| latency.p50)),
    ("99 % are shorter", |figures| microseconds(figures, |latency| latency.p99)),
    ("99.9 % are shorter", |figures| microseconds(figures, |latency| latency.p99_9)),
];

/// Draws the figures.
pub fn figures(study: &Study) -> Vec<Figure> {
    [BY_BURST.draw(study, round_trips), under_load(study)].into_iter().flatten().collect()
}

/// Draws one figure of all parts, with panels for each.
fn under_load(study: &Study) -> Option<Figure> {
    let parts = PARTS.iter().filter_map(|(name, value)| {
        let mut figure = Plan { value: *value, ..UNDER_LOAD }.draw(study, round_trips)?;
        for panel in &mut figure.panels {
            let others = if panel.title.is_empty() { String::new() } else { format!(", {}", panel.title) };
            panel.title = format!("{name}{others}");
        }
        Some(figure)
    });
    parts.reduce(|mut first, other| {
        first.panels.extend(other.panels);
        first
    })
}

fn round_trips(runs: &[Run]) -> Vec<&Run> {
    runs.iter().filter(|run| run.point.dimension == Dimension::Latency).collect()
}

fn microseconds(figures: &Figures, of: fn(&Latency) -> f64) -> Option<f64> {
    figures.latency.as_ref().map(|latency| of(latency) / 1e3)
}
