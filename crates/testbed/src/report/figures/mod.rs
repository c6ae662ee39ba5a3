//! The figures: each selects the runs that it shows. A figure whose runs are not there is left out.

mod curves;
mod figure;
mod latency;
mod panels;
mod processors;
mod rates;
mod table;
mod techniques;
mod throughput;

pub use figure::{Across, DataPoint, Figure, Panel, Series};

use super::study::Study;

/// Draws all figures.
pub fn all(study: &Study) -> Vec<Figure> {
    let throughput = throughput::figures(study).into_iter().chain(rates::figures(study));
    let all = throughput.chain(latency::figures(study)).chain(processors::figures(study));
    all.chain(techniques::figures(study)).collect()
}
