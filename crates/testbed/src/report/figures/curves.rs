//! Figures of one quantity along one axis of the tuple, with all else held fixed in each panel.

use super::figure::{Across, DataPoint, Figure, Series, Up};
use super::panels::{panels, series};
use crate::report::conditions::Axis;
use crate::report::run::{Figures, Run};
use crate::report::study::Study;
use crate::statistics::Estimate;

/// Takes the figure that is shown from those of a run.
pub type Value = fn(&Figures) -> Option<f64>;

/// Plan of a figure.
pub struct Plan {
    pub id: &'static str,
    pub title: &'static str,
    pub paper: Option<&'static str>,
    pub about: &'static str,
    pub axis: Axis,
    /// Least number of places along the axis for a panel to be drawn.
    pub least: usize,
    pub up: Up,
    pub value: Value,
}

impl Plan {
    /// Draws the figure from the runs of each set that `select` returns. A panel has places enough along the axis.
    pub fn draw<'s>(&self, study: &'s Study, select: impl Fn(&'s [Run]) -> Vec<&'s Run>) -> Option<Figure> {
        let along = |runs| select(runs).into_iter().filter(|run| self.axis.of(&run.point).is_some()).collect();
        let conditions = |run: &Run| run.conditions().without(self.axis);
        let (common, panels) = panels(study, along, conditions, |runs| {
            let series = series(&study.cast, runs, |runs| self.spots(runs));
            if places(&series) >= self.least { series } else { Vec::new() }
        })?;
        let Plan { id, title, paper, about, up, .. } = *self;
        Some(Figure { id, title, paper, about, common, across: across(self.axis), up, panels })
    }

    fn spots(&self, runs: &[&Run]) -> Vec<DataPoint> {
        let mut places: Vec<f64> = runs.iter().filter_map(|run| self.axis.of(&run.point)).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let at = |x: f64| {
            let here = runs.iter().filter(|run| self.axis.of(&run.point) == Some(x));
            Estimate::of(here.filter_map(|run| (self.value)(&run.figures))).map(|y| DataPoint { x, y })
        };
        places.into_iter().filter_map(at).collect()
    }
}

/// Counts the places along the axis at which there are results.
fn places(series: &[Series]) -> usize {
    let mut places: Vec<f64> = series.iter().flat_map(|series| &series.spots).map(|spot| spot.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places.len()
}

fn across(axis: Axis) -> Across {
    let (label, logarithmic) = match axis {
        Axis::Rate => ("offered by each sender, Mpps", false),
        Axis::Share => ("load, % of the switch's own rate without loss", false),
        Axis::Size => ("bytes of a frame", true),
        Axis::Pairs => ("pairs", true),
        Axis::Burst => ("packets of a burst", true),
    };
    Across::Numbers { label, logarithmic }
}
