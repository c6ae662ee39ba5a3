//! The numbers of a panel, as a table.

use super::figure::{Across, DataPoint, Figure, Panel};
use crate::report::cast::Cast;
use crate::report::numbers::{digits, estimate};

/// A table: a row for each place along the horizontal axis, a column for each contestant.
pub struct Table {
    /// Heads of the columns.
    pub heads: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Figure {
    /// Returns the table of one of its panels.
    pub fn table(&self, panel: &Panel, cast: &Cast) -> Table {
        let mut places: Vec<f64> = panel.series.iter().flat_map(|series| &series.spots).map(|spot| spot.x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let axis = match self.across {
            Across::Numbers { label, .. } => label,
            Across::Bars(_) => "",
        };
        let names = panel.series.iter().map(|series| cast.name(&series.contestant));
        // Different numbers of pairs may use equally many processors.
        let at = |spots: &[DataPoint], x: f64| {
            let here: Vec<String> = spots.iter().filter(|spot| spot.x == x).map(|spot| estimate(&spot.y)).collect();
            (!here.is_empty()).then(|| here.join("; "))
        };
        let row = |x: f64| {
            let results = panel.series.iter().map(|series| at(&series.spots, x).unwrap_or_else(|| "-".to_owned()));
            std::iter::once(self.across.mark(x)).chain(results).collect()
        };
        Table {
            heads: std::iter::once(axis.to_owned()).chain(names).collect(),
            rows: places.into_iter().map(row).collect(),
        }
    }
}

impl Across {
    /// Names a place.
    pub fn mark(&self, x: f64) -> String {
        match self {
            Across::Bars(names) => names[x as usize].to_owned(),
            Across::Numbers { .. } if x.fract() == 0.0 => format!("{x}"),
            Across::Numbers { .. } => digits(x),
        }
    }
}
