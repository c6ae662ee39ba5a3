//! Ways to send and receive through one switch.

use super::figure::{Across, DataPoint, Figure, Up};
use super::panels::{panels, series};
use super::throughput::fastest;
use crate::report::run::Run;
use crate::report::study::Study;
use crate::statistics::Estimate;

/// Draws the figure: a switch that packets reach in several ways has a bar for each.
pub fn figures(study: &Study) -> Option<Figure> {
    let (common, panels) = panels(study, fastest, Run::conditions, |runs| {
        let all = series(&study.cast, runs, spots);
        let ways = |switch: &str| all.iter().filter(|series| series.contestant.switch == switch).count();
        let has_several: Vec<bool> = all.iter().map(|series| ways(&series.contestant.switch) > 1).collect();
        all.into_iter().zip(has_several).filter_map(|(series, several)| several.then_some(series)).collect()
    })?;
    Some(Figure {
        id: "techniques",
        title: "Ways to send and receive",
        paper: Some("table 2"),
        about: "One switch, and applications that reach it in different ways.",
        common,
        across: Across::Bars(&["received"]),
        up: Up { label: "received, thousand packets per second", unit: "kpps", logarithmic: false },
        panels,
    })
}

fn spots(runs: &[&Run]) -> Vec<DataPoint> {
    let rate = Estimate::of(runs.iter().filter_map(|run| Some(run.figures.packets? / 1e3)));
    rate.map(|y| DataPoint { x: 0.0, y }).into_iter().collect()
}
