//! Rates without loss, and with hardly any.

use super::figure::{Across, DataPoint, Figure, Up};
use super::panels::{panels, series};
use crate::report::run::{Figures, Run};
use crate::report::study::Study;
use crate::statistics::Estimate;

/// Draws the figure.
pub fn figures(study: &Study) -> Option<Figure> {
    let (common, panels) = panels(study, searches, Run::conditions, |runs| series(&study.cast, runs, spots))?;
    Some(Figure {
        id: "rates",
        title: "Rates without loss",
        paper: None,
        about: "The greatest rate that was found to lose no packet (NDR), and at most 0.5 % of them (PDR), by a search for each \
                switch.",
        common,
        across: Across::Bars(&["NDR", "PDR"]),
        up: Up { label: "rate, Mpps", unit: "Mpps", logarithmic: false },
        panels,
    })
}

fn searches(runs: &[Run]) -> Vec<&Run> {
    runs.iter().filter(|run| run.figures.ndr.or(run.figures.pdr).is_some()).collect()
}

fn spots(runs: &[&Run]) -> Vec<DataPoint> {
    let of =
        |rate: fn(&Figures) -> Option<f64>| Estimate::of(runs.iter().filter_map(|run| Some(rate(&run.figures)? / 1e6)));
    let both = [(0.0, of(|figures| figures.ndr)), (1.0, of(|figures| figures.pdr))];
    both.into_iter().filter_map(|(x, y)| Some(DataPoint { x, y: y? })).collect()
}
