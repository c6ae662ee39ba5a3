//! Throughput, and the processor time that it takes.

use super::figure::{Across, DataPoint, Figure, Series, Up};
use super::panels::{panels, series};
use super::throughput::fastest;
use crate::report::conditions::Axis;
use crate::report::run::Run;
use crate::report::study::Study;
use crate::statistics::Estimate;

/// Draws the figure: a spot for each number of pairs.
pub fn figures(study: &Study) -> Option<Figure> {
    let conditions = |run: &Run| run.conditions().without(Axis::Pairs);
    let (common, panels) = panels(study, fastest, conditions, |runs| {
        let series = series(&study.cast, runs, spots);
        if has_several_spots(&series) { series } else { Vec::new() }
    })?;
    Some(Figure {
        id: "processors",
        title: "Throughput and processors",
        paper: Some("figure 6"),
        about: "A spot for each number of pairs, with the processor time of the switch, the applications and the kernel's \
                threads. Up and to the left is better.",
        common,
        across: Across::Numbers { label: "processors in use", logarithmic: false },
        up: Up { label: "received, Mpps", unit: "Mpps", logarithmic: false },
        panels,
    })
}

fn has_several_spots(series: &[Series]) -> bool {
    series.iter().map(|series| series.spots.len()).sum::<usize>() > 1
}

fn spots(runs: &[&Run]) -> Vec<DataPoint> {
    let mut pairs: Vec<u8> = runs.iter().map(|run| run.point.pairs).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let of = |pairs: u8| {
        let here = || runs.iter().filter(move |run| run.point.pairs == pairs).map(|run| &run.figures);
        let processors = Estimate::of(here().filter_map(|figures| figures.processors))?;
        let packets = Estimate::of(here().filter_map(|figures| figures.packets))?;
        let y = Estimate { median: packets.median / 1e6, low: packets.low / 1e6, high: packets.high / 1e6, ..packets };
        Some(DataPoint { x: processors.median, y })
    };
    let mut spots: Vec<_> = pairs.into_iter().filter_map(of).collect();
    spots.sort_by(|a, b| a.x.total_cmp(&b.x));
    spots
}
