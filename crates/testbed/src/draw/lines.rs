//! Line charts over a few discrete values, in one or more panels side by side.

use super::{COLOURS, Scale, Svg};

const HEIGHT: f64 = 300.0;
const LEFT: f64 = 52.0;
const TOP: f64 = 72.0;
const BOTTOM: f64 = 64.0;
/// Width of a panel's plot, and of the space to its right for the names of its lines.
const PLOT: f64 = 380.0;
const NAMES: f64 = 190.0;

/// A named line with a value for each mark, if known.
pub struct Line {
    pub name: String,
    pub values: Vec<Option<f64>>,
}

/// A line chart.
pub struct Lines {
    pub title: String,
    /// Label of the marks' axis.
    pub axis: String,
    pub marks: Vec<String>,
    /// Panels, each with a title.
    pub panels: Vec<(String, Vec<Line>)>,
    /// Dotted lines in all panels. They do not affect the scale.
    pub limits: Vec<Line>,
    pub foot: String,
}

/// Draws the chart.
pub fn svg(picture: &Lines) -> String {
    let width = (LEFT + PLOT + NAMES) * picture.panels.len().max(1) as f64;
    let mut svg = Svg::new(width, TOP + HEIGHT + BOTTOM);
    svg.label((LEFT, 24.0), "start", 16, &picture.title);
    let values = picture.panels.iter().flat_map(|(_, lines)| lines).flat_map(|line| line.values.iter().flatten());
    let scale = Scale::up_to(values.copied().fold(1.0, f64::max));
    for (number, (title, lines)) in picture.panels.iter().enumerate() {
        let left = LEFT + number as f64 * (LEFT + PLOT + NAMES);
        svg.label((left, 52.0), "start", 13, title);
        axes(&mut svg, left, &scale, picture);
        let place = |mark: usize, value: f64| (left + x(mark, picture.marks.len()), y(&scale, value));
        for limit in &picture.limits {
            let points = limit.values.iter().enumerate().filter_map(|(mark, value)| Some((mark, (*value)?)));
            let shown: Vec<_> = points.filter(|(_, value)| *value <= scale.top()).map(|(m, v)| place(m, v)).collect();
            svg.line(&shown, "#808080", "stroke-dasharray=\"2 4\"");
            if let Some(&(x, y)) = shown.first() {
                svg.label((x + 4.0, y - 6.0), "start", 10, &limit.name);
            }
        }
        for (index, line) in lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let values = line.values.iter().enumerate();
            let points: Vec<_> = values.filter_map(|(mark, value)| Some(place(mark, (*value)?))).collect();
            svg.line(&points, colour, "stroke-width=\"2\"");
            points.iter().for_each(|&point| svg.dot(point, colour));
            let at = (left + PLOT + 12.0, TOP + 16.0 + 18.0 * index as f64);
            svg.rectangle((at.0, at.1 - 9.0), (10.0, 10.0), colour);
            svg.label((at.0 + 16.0, at.1), "start", 12, &line.name);
        }
    }
    svg.label((LEFT, TOP + HEIGHT + BOTTOM - 8.0), "start", 9, &picture.foot);
    svg.end()
}

fn axes(svg: &mut Svg, left: f64, scale: &Scale, picture: &Lines) {
    for value in scale.marks() {
        let y = y(scale, value);
        svg.line(&[(left, y), (left + PLOT, y)], "#d8d8d8", "");
        svg.label((left - 8.0, y + 4.0), "end", 12, &format!("{value}"));
    }
    for (mark, text) in picture.marks.iter().enumerate() {
        svg.label((left + x(mark, picture.marks.len()), TOP + HEIGHT + 16.0), "middle", 12, text);
    }
    svg.label((left + PLOT / 2.0, TOP + HEIGHT + 34.0), "middle", 12, &picture.axis);
}

fn x(mark: usize, marks: usize) -> f64 {
    (mark as f64 + 0.5) * PLOT / marks.max(1) as f64
}

fn y(scale: &Scale, value: f64) -> f64 {
    TOP + HEIGHT * (1.0 - value / scale.top())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_its_points_and_its_name() {
        let line = |name: &str, values: [Option<f64>; 3]| Line { name: name.into(), values: values.into() };
        let picture = Lines {
            title: "a & b".into(),
            axis: "x".into(),
            marks: ["1", "2", "3"].map(String::from).into(),
            panels: vec![
                (
                    "one".into(),
                    vec![line("first", [Some(1.0), Some(2.0), Some(3.0)]), line("second", [Some(9.0), None, None])],
                ),
                ("two".into(), vec![line("third", [None; 3])]),
            ],
            limits: vec![line("limit", [Some(100.0), Some(5.0), Some(4.0)])],
            foot: "foot".into(),
        };
        let svg = svg(&picture);
        assert_eq!(svg.matches("<circle").count(), 4);
        assert_eq!(svg.matches("stroke-dasharray").count(), 2);
        for text in ["a &amp; b", "first", "second", "third", "limit", "foot", ">2<"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(!svg.contains("=\"-") && !svg.contains("NaN"), "{svg}");
    }
}
