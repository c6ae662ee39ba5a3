//! A figure, ready to be shown.

use crate::report::run::Contestant;
use crate::statistics::Estimate;

/// A figure, with a panel for each set of conditions.
#[derive(Debug)]
pub struct Figure {
    /// Its name in links.
    pub id: &'static str,
    /// Its title.
    pub title: &'static str,
    /// The part of the paper that it corresponds to, such as `figure 4a`.
    pub paper: Option<&'static str>,
    /// A hint for reading it.
    pub about: &'static str,
    /// Conditions of all of its panels.
    pub common: Vec<String>,
    /// The horizontal axis.
    pub across: Across,
    /// The vertical axis.
    pub up: Up,
    /// The panels.
    pub panels: Vec<Panel>,
}

/// A horizontal axis.
#[derive(Clone, Copy, Debug)]
pub enum Across {
    /// Numbers: their meaning, and whether their scale is logarithmic.
    Numbers { label: &'static str, logarithmic: bool },
    /// Bars, with these names.
    Bars(&'static [&'static str]),
}

/// A vertical axis: its quantity and unit, and whether its scale is logarithmic.
#[derive(Clone, Copy, Debug)]
pub struct Up {
    /// Quantity and unit.
    pub label: &'static str,
    /// The unit.
    pub unit: &'static str,
    /// Whether equal ratios have equal distances.
    pub logarithmic: bool,
}

/// A plot.
#[derive(Debug)]
pub struct Panel {
    /// The condition that sets it apart from the other panels.
    pub title: String,
    /// The paper's tuple.
    pub tuple: String,
    /// Distance of the processors, and the runs that are left out for theirs.
    pub distance: String,
    /// A series for each contestant.
    pub series: Vec<Series>,
}

/// The results of one contestant.
#[derive(Debug)]
pub struct Series {
    /// The contestant.
    pub contestant: Contestant,
    /// Its results, from left to right.
    pub spots: Vec<DataPoint>,
}

/// One result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataPoint {
    /// Its horizontal position; for bars, the number of the name.
    pub x: f64,
    /// The result.
    pub y: Estimate,
}
