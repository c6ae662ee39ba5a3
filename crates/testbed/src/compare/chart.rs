//! Bar chart of a comparison, drawn from its record.

use super::figures::Figure;
use crate::draw::{Scale, Svg};
use crate::record::{Record, RecordError, rounded};
use clap::Args;
use loadgen::load::TouchLevel;
use std::path::PathBuf;

/// Height of the plot, and the margins around it.
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 96.0;
/// Width of a bar, and of a group of two with the gap to the next group.
const BAR: f64 = 40.0;
const GROUP: f64 = 116.0;
/// Minimum width: the title must fit.
const NARROWEST: f64 = 640.0;

const COLOURS: [&str; 2] = ["#0b6e99", "#e0a030"];

/// File name of a chart.
pub const FILE: &str = "chart.svg";

/// Comparisons to draw.
#[derive(Clone, Debug, Args)]
pub struct DrawCharts {
    /// Directories that `testbed compare` has written: chart.svg is drawn from the results.json beside it
    #[arg(required = true, value_name = "DIR")]
    pub directories: Vec<PathBuf>,
}

/// Redraws the charts.
pub fn run(charts: &DrawCharts) -> Result<(), RecordError> {
    for directory in &charts.directories {
        let path = directory.join(FILE);
        let picture = svg(&Record::read(directory)?);
        std::fs::write(&path, picture).map_err(|source| RecordError::Write { path, source })?;
    }
    Ok(())
}

/// Draws two bars a row, with their range where it is known.
pub fn svg(record: &Record<Figure>) -> String {
    let rows = &record.figures;
    let names: Vec<&str> = rows.first().into_iter().flat_map(|row| row.mpps.names()).take(COLOURS.len()).collect();
    let width = (LEFT + rows.len() as f64 * GROUP + 24.0).max(NARROWEST);
    let height = TOP + HEIGHT + BOTTOM;
    let rates = rows.iter().flat_map(|row| names.iter().filter_map(|name| Rate::of(row, name)));
    let scale = Scale::up_to(rates.map(|rate| rate.greatest).fold(1.0, f64::max));
    let mut svg = Svg::new(width, height);
    svg.label((LEFT, 24.0), "start", 16, "Frames through the switch, Mpps, and the ratio of the two");
    for (name, (colour, x)) in names.iter().zip(COLOURS.iter().zip([LEFT, LEFT + 200.0])) {
        svg.rectangle((x, 36.0), (12.0, 12.0), colour);
        svg.label((x + 18.0, 46.0), "start", 12, name);
    }
    for value in scale.marks() {
        let y = y(&scale, value);
        svg.line(&[(LEFT, y), (width - 12.0, y)], "#d8d8d8", "");
        svg.label((LEFT - 8.0, y + 4.0), "end", 12, &format!("{value}"));
    }
    for (group, row) in rows.iter().enumerate() {
        let left = LEFT + group as f64 * GROUP + (GROUP - 2.0 * BAR) / 2.0;
        for (index, name) in names.iter().enumerate() {
            if let Some(rate) = Rate::of(row, name) {
                bar(&mut svg, left + index as f64 * BAR, &scale, &rate, COLOURS[index]);
            }
        }
        let (middle, base) = (left + BAR, TOP + HEIGHT);
        svg.label((middle, base + 16.0), "middle", 12, &format!("{} {} B", row.ring, row.bytes));
        let functions = row.functions.map(|functions| format!(", {functions} functions")).unwrap_or_default();
        svg.label((middle, base + 32.0), "middle", 11, &(touched(row.touched).to_owned() + &functions));
        if let Some([ratio, ..]) = row.ratio {
            svg.label((middle, base + 48.0), "middle", 11, &format!("\u{d7} {ratio:.2}"));
        }
    }
    for (line, y) in record.foot().iter().zip([height - 26.0, height - 12.0]) {
        svg.label((LEFT, y), "start", 9, line);
    }
    svg.end()
}

/// Frames of one contestant, in Mpps. Without a range, both ends are the median.
struct Rate {
    median: f64,
    least: f64,
    greatest: f64,
}

impl Rate {
    fn of(row: &Figure, name: &str) -> Option<Rate> {
        let median = *row.mpps.of(name)?;
        let &[least, greatest] = row.mpps_range.of(name).unwrap_or(&[median, median]);
        Some(Rate { median, least, greatest })
    }
}

fn bar(svg: &mut Svg, x: f64, scale: &Scale, rate: &Rate, colour: &str) {
    let (top, middle) = (y(scale, rate.median), x + BAR / 2.0);
    svg.rectangle((x + 1.0, top), (BAR - 2.0, TOP + HEIGHT - top), colour);
    if rate.least < rate.greatest {
        svg.line(&[(middle, y(scale, rate.least)), (middle, y(scale, rate.greatest))], "#303030", "");
    }
    svg.label((middle, y(scale, rate.greatest) - 4.0), "middle", 11, &format!("{:.1}", rounded(rate.median, 1)));
}

fn touched(level: TouchLevel) -> &'static str {
    match level {
        TouchLevel::None => "not touched",
        TouchLevel::Header => "header touched",
        TouchLevel::Payload => "payload touched",
    }
}

fn y(scale: &Scale, value: f64) -> f64 {
    TOP + HEIGHT * (1.0 - value / scale.top())
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::record_of;
    use super::*;

    #[test]
    fn there_are_two_bars_a_row_within_the_picture() {
        let mut record = record_of(&[&[30.0, 10.0], &[20.0, 25.0, 22.0, 25.0]]);
        record.command = "testbed".to_owned();
        record.commit = Some("A & B <C>".to_owned());
        let picture = svg(&record);
        for colour in COLOURS {
            assert_eq!(
                picture.matches(&format!("fill=\"{colour}\"")).count(),
                3,
                "two bars, and the legend\n{picture}"
            );
        }
        assert_eq!(picture.matches("#303030").count(), 1, "only one rate has a range\n{picture}");
        assert!(picture.contains("A &amp; B &lt;C>") && !picture.contains("=\"-"), "{picture}");
        assert!(picture.contains("\u{d7} 3.00"), "{picture}");

        let directory = tempfile::tempdir().unwrap();
        record.write(directory.path(), &[]).unwrap();
        run(&DrawCharts { directories: vec![directory.path().to_owned()] }).unwrap();
        assert_eq!(std::fs::read_to_string(directory.path().join(FILE)).unwrap(), picture);
    }
}
