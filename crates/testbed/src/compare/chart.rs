//! Bar chart of the results, in SVG.

use super::results::{Results, Spread};
use crate::draw::{Scale, label};
use std::fmt::Write;

/// Height of the plot, and the margins around it.
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 76.0;
/// Width of a bar, and of a group of two with the gap to the next group.
const BAR: f64 = 40.0;
const GROUP: f64 = 116.0;
/// Minimum width: the title must fit.
const NARROWEST: f64 = 640.0;

const COLOURS: [&str; 2] = ["#0b6e99", "#e0a030"];

/// Draws two bars per scenario, each the median of its runs with their spread.
pub fn svg(results: &Results) -> String {
    let groups = results.outcomes.len() as f64;
    let width = (LEFT + groups * GROUP + 24.0).max(NARROWEST);
    let height = TOP + HEIGHT + BOTTOM;
    let spread = |outcome: &super::results::Outcome, c| outcome.spread(c, |run| Some(run.mpps));
    let all = || results.outcomes.iter().flat_map(|o| results.contestants.map(|c| spread(o, c))).flatten();
    let scale = Scale::up_to(all().map(|s| s.max).fold(1.0, f64::max));
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
    );
    let [a, b] = results.contestants;
    label(&mut out, (LEFT, 24.0), "start", 16, &format!("{a} and {b}: frames through the switch, Mpps"));
    for (index, contestant) in results.contestants.iter().enumerate() {
        let x = LEFT + index as f64 * 160.0;
        let _ = writeln!(out, "<rect x=\"{x}\" y=\"36\" width=\"12\" height=\"12\" fill=\"{}\"/>", COLOURS[index]);
        label(&mut out, (x + 18.0, 46.0), "start", 12, &contestant.to_string());
    }
    for value in scale.marks() {
        let y = y(&scale, value);
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#d8d8d8\"/>",
            width - 12.0
        );
        label(&mut out, (LEFT - 8.0, y + 4.0), "end", 12, &format!("{value}"));
    }
    for (group, outcome) in results.outcomes.iter().enumerate() {
        let left = LEFT + group as f64 * GROUP + (GROUP - 2.0 * BAR) / 2.0;
        for (index, &contestant) in results.contestants.iter().enumerate() {
            if let Some(spread) = spread(outcome, contestant) {
                bar(&mut out, left + index as f64 * BAR, &scale, spread, COLOURS[index]);
            }
        }
        let (middle, base) = (left + BAR, TOP + HEIGHT);
        let scenario = outcome.scenario;
        label(&mut out, (middle, base + 16.0), "middle", 12, &format!("{} {} B", scenario.ring, scenario.size));
        let distance = outcome.distance().map_or("moved".to_owned(), |d| d.to_string());
        label(&mut out, (middle, base + 32.0), "middle", 11, &format!("{}, {distance}", scenario.touch));
    }
    label(&mut out, (LEFT, height - 16.0), "start", 9, &results.rig.to_string());
    out.push_str("</svg>\n");
    out
}

fn bar(out: &mut String, x: f64, scale: &Scale, spread: Spread, colour: &str) {
    let (top, middle) = (y(scale, spread.median), x + BAR / 2.0);
    let _ = writeln!(
        out,
        "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>\n\
         <line x1=\"{middle:.1}\" y1=\"{:.1}\" x2=\"{middle:.1}\" y2=\"{:.1}\" stroke=\"#303030\"/>",
        x + 1.0,
        BAR - 2.0,
        TOP + HEIGHT - top,
        y(scale, spread.min),
        y(scale, spread.max)
    );
    label(out, (middle, y(scale, spread.max) - 4.0), "middle", 11, &format!("{:.1}", spread.median));
}

/// Returns the position of a value.
fn y(scale: &Scale, value: f64) -> f64 {
    TOP + HEIGHT * (1.0 - value / scale.top())
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::results;
    use super::*;

    #[test]
    fn there_are_two_bars_a_scenario_within_the_picture() {
        let rates: &[&[f64]] = &[&[30.0, 10.0], &[20.0, 25.0]];
        let mut results = results(rates);
        results.rig.cpu = "A & B <C>".to_owned();
        let svg = svg(&results);
        for colour in COLOURS {
            assert_eq!(svg.matches(&format!("fill=\"{colour}\"")).count(), 3, "two bars, and the legend\n{svg}");
        }
        assert!(svg.contains("A &amp; B &lt;C>") && !svg.contains("=\"-"), "{svg}");
    }
}
