//! Charts: the distribution of cycles, and the model with measured points.

use super::found::{Found, Measured, THREADS, kind};
use super::model::{Frames, Kind, Link};
use super::plan::{Flows, Load, Sharing};
use crate::draw::curves::{self, Curve, Curves, Panel, Shape};

/// The horizontal axis ends where this share of packets of each curve is, at least.
const SHOWN: f64 = 0.9;

/// Draws the cumulative distributions of cycles with these flows, a panel for each load; `None` if there are none.
pub fn cycles(found: &Found, flows: Flows) -> Option<String> {
    let panel = |load: Load| {
        let is_shown = |measured: &&Measured| measured.point.load == load && measured.point.flows == flows;
        let shown: Vec<&Measured> = found.costs().filter(is_shown).collect();
        let end = shown.iter().map(|measured| measured.cycles().quantile(SHOWN)).fold(0.0, f64::max);
        let curve = |(colour, measured): (usize, &&Measured)| {
            let sharing = measured.point.sharing;
            let name = if sharing == Sharing::Alone {
                sharing.to_string()
            } else {
                format!("{sharing}, {}", measured.point.threads)
            };
            let shares = measured.cycles().shares();
            let points = shares.into_iter().map(|(cycles, share)| (cycles, 100.0 * share)).collect();
            let is_compared = matches!(sharing, Sharing::Rss | Sharing::Locked);
            Curve { name, colour, shape: if is_compared { Shape::Dotted } else { Shape::Line }, points }
        };
        let curves: Vec<_> = shown.iter().enumerate().map(curve).collect();
        (!curves.is_empty()).then(|| Panel {
            title: format!("{load} load, {}", if flows == Flows::One { "one flow" } else { "many flows" }),
            end,
            curves,
        })
    };
    let panels: Vec<_> = [Load::Low, Load::Full].into_iter().filter_map(panel).collect();
    (!panels.is_empty()).then(|| {
        curves::svg(&Curves {
            title: "Sharing a receive queue: cumulative % of packets, by cycles of sharing and I/O".into(),
            axis: "cycles a packet".into(),
            top: Some(100.0),
            panels,
            foot: foot(found),
        })
    })
}

/// Draws the rates that the model predicts, a panel for each amount of work, and measured ones as dots; `None` without a model.
pub fn model(found: &Found) -> Option<String> {
    found.model_costs()?;
    let end = f64::from(*THREADS.end());
    let panel = |(asked, work): (u64, f64)| {
        let model = found.model(work)?;
        let mut curves = Vec::new();
        for (colour, kind) in Kind::ALL.into_iter().enumerate() {
            let rate = |threads: u32| (f64::from(threads), found.mpps(model.capacity(kind, threads)));
            curves.push(Curve {
                name: kind.name().into(),
                colour,
                shape: Shape::Line,
                points: THREADS.map(rate).collect(),
            });
        }
        for (number, gigabits) in [10, 25].into_iter().enumerate() {
            let mpps = Link { gigabits, frames: Frames::Of(64) }.packets() / 1e6;
            let points = vec![(0.0, mpps), (end, mpps)];
            let name = format!("{gigabits} GbE of 64 B");
            curves.push(Curve { name, colour: Kind::ALL.len() + number, shape: Shape::Dotted, points });
        }
        for measured in found.speeds().filter(|measured| measured.point.work == asked) {
            let point = (f64::from(measured.point.threads), found.mpps(measured.pace()?.median));
            let colour = colour(kind(measured.point));
            curves.push(Curve { name: String::new(), colour, shape: Shape::Dots, points: vec![point] });
        }
        Some(Panel { title: format!("{asked} cycles of work"), end, curves })
    };
    let panels = found.works().into_iter().filter_map(panel).collect();
    Some(curves::svg(&Curves {
        title: "Sharing a receive queue: Mpps that a model predicts for more threads; dots were measured".into(),
        axis: "threads that process".into(),
        top: None,
        panels,
        foot: foot(found),
    }))
}

fn colour(kind: Kind) -> usize {
    Kind::ALL.iter().position(|known| *known == kind).expect("all are there")
}

fn foot(found: &Found) -> String {
    found.rig.to_string()
}
