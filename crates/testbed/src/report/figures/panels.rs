//! Panels of figures: one for each set of equal conditions.

use super::figure::{DataPoint, Panel, Series};
use crate::report::cast::Cast;
use crate::report::conditions::{Conditions, common_words};
use crate::report::run::{Contestant, Run};
use crate::report::selection::{at_one_distance, groups};
use crate::report::study::Study;

/// Selects runs of each set, groups them by conditions, and draws a panel for each group that has results. Returns what all
/// panels have in common, too; none, if there is no panel.
pub fn panels<'s>(
    study: &'s Study,
    select: impl Fn(&'s [Run]) -> Vec<&'s Run>,
    conditions: impl Fn(&Run) -> Conditions,
    draw: impl Fn(&[&Run]) -> Vec<Series>,
) -> Option<(Vec<String>, Vec<Panel>)> {
    let (mut all, mut panels) = (Vec::new(), Vec::new());
    for set in &study.sets {
        for (conditions, runs) in groups(select(&set.runs), &conditions) {
            let Some(comparable) = at_one_distance(&runs) else { continue };
            let series = draw(&comparable.runs);
            if series.is_empty() {
                continue;
            }
            let distance = format!("Processors {}.{}", comparable.distance, comparable.left_out);
            let title = if study.sets.len() > 1 { set.name.clone() } else { String::new() };
            panels.push(Panel { title, tuple: conditions.tuple(), distance, series });
            all.push(conditions);
        }
    }
    let (common, others) = common_words(&all);
    for (panel, mut words) in panels.iter_mut().zip(others) {
        words.extend((!panel.title.is_empty()).then(|| panel.title.clone()));
        panel.title = words.join(", ");
    }
    (!panels.is_empty()).then_some((common, panels))
}

/// Returns a series for each contestant that has results; `spots` gets the runs of one.
pub fn series(cast: &Cast, runs: &[&Run], spots: impl Fn(&[&Run]) -> Vec<DataPoint>) -> Vec<Series> {
    let of = |contestant: &Contestant| {
        let its: Vec<&Run> = runs.iter().copied().filter(|run| Contestant::of(&run.point) == *contestant).collect();
        Series { contestant: contestant.clone(), spots: spots(&its) }
    };
    cast.all().iter().map(of).filter(|series| !series.spots.is_empty()).collect()
}
