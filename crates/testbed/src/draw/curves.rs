//! Charts of curves over a continuous axis, with dots for measured values, in panels side by side.

use super::{COLOURS, Scale, Svg};

const HEIGHT: f64 = 300.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 72.0;
const BOTTOM: f64 = 64.0;
/// Width of a panel's plot, and of the space to its right for the names of its curves.
const PLOT: f64 = 340.0;
const NAMES: f64 = 190.0;

/// A named curve.
pub struct Curve {
    pub name: String,
    /// Number of its colour: curves of one number have the same.
    pub colour: usize,
    pub shape: Shape,
    pub points: Vec<(f64, f64)>,
}

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Line,
    /// A line for comparison.
    Dotted,
    /// Its points only, and no name: they are on another curve of the colour.
    Dots,
}

/// A plot.
pub struct Panel {
    pub title: String,
    /// End of the horizontal axis, which begins at 0. Values beyond it are not drawn.
    pub end: f64,
    pub curves: Vec<Curve>,
}

/// A chart.
pub struct Curves {
    pub title: String,
    /// Label of the horizontal axis.
    pub axis: String,
    /// End of the vertical axis; by default above all points of the panel.
    pub top: Option<f64>,
    pub panels: Vec<Panel>,
    pub foot: String,
}

/// Draws the chart.
pub fn svg(picture: &Curves) -> String {
    let width = (LEFT + PLOT + NAMES) * picture.panels.len().max(1) as f64;
    let mut svg = Svg::new(width, TOP + HEIGHT + BOTTOM);
    svg.label((LEFT, 24.0), "start", 16, &picture.title);
    for (number, panel) in picture.panels.iter().enumerate() {
        let left = LEFT + number as f64 * (LEFT + PLOT + NAMES);
        draw(&mut svg, left, picture, panel);
    }
    svg.label((LEFT, TOP + HEIGHT + BOTTOM - 8.0), "start", 9, &picture.foot);
    svg.end()
}

fn draw(svg: &mut Svg, left: f64, picture: &Curves, panel: &Panel) {
    svg.label((left, 52.0), "start", 13, &panel.title);
    let shown =
        |curve: &Curve| -> Vec<(f64, f64)> { curve.points.iter().copied().filter(|(x, _)| *x <= panel.end).collect() };
    let greatest = panel.curves.iter().flat_map(&shown).map(|(_, y)| y).fold(1.0, f64::max);
    let [across, up] = [Scale::up_to(panel.end * 0.999), Scale::up_to(picture.top.unwrap_or(greatest) * 0.999)];
    let place = |(x, y): (f64, f64)| (left + PLOT * x / across.top(), TOP + HEIGHT * (1.0 - y / up.top()));
    for value in up.marks() {
        let (_, y) = place((0.0, value));
        svg.line(&[(left, y), (left + PLOT, y)], "#d8d8d8", "");
        svg.label((left - 8.0, y + 4.0), "end", 12, &short(value));
    }
    for value in across.marks() {
        svg.label((place((value, 0.0)).0, TOP + HEIGHT + 16.0), "middle", 12, &short(value));
    }
    svg.label((left + PLOT / 2.0, TOP + HEIGHT + 34.0), "middle", 12, &picture.axis);
    let mut named = 0.0;
    for curve in &panel.curves {
        let colour = COLOURS[curve.colour % COLOURS.len()];
        let points: Vec<_> = shown(curve).into_iter().map(place).collect();
        match curve.shape {
            Shape::Line => svg.line(&points, colour, "stroke-width=\"2\""),
            Shape::Dotted => svg.line(&points, colour, "stroke-dasharray=\"2 4\""),
            Shape::Dots => {
                points.iter().for_each(|&point| svg.dot(point, colour));
                continue;
            }
        }
        let at = (left + PLOT + 12.0, TOP + 16.0 + 18.0 * named);
        svg.rectangle((at.0, at.1 - 9.0), (10.0, 10.0), colour);
        svg.label((at.0 + 16.0, at.1), "start", 12, &curve.name);
        named += 1.0;
    }
}

/// Formats a mark without digits that sums of steps bring with them.
fn short(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_has_its_points_within_the_axes() {
        let curve = |name: &str, shape, points: &[(f64, f64)]| Curve {
            name: name.into(),
            colour: 1,
            shape,
            points: points.into(),
        };
        let curves = vec![
            curve("a line", Shape::Line, &[(0.0, 0.0), (5.0, 1.0), (20.0, 9.0)]),
            curve("a limit", Shape::Dotted, &[(0.0, 0.3), (10.0, 0.3)]),
            curve("not named", Shape::Dots, &[(1.0, 0.1), (2.0, 0.2), (30.0, 0.3)]),
        ];
        let panel = Panel { title: "panel".into(), end: 10.0, curves };
        let (title, axis, foot) = ("a & b".into(), "cycles".into(), "foot".into());
        let svg = svg(&Curves { title, axis, top: Some(1.0), panels: vec![panel], foot });
        assert_eq!((svg.matches("<circle").count(), svg.matches("stroke-dasharray").count()), (2, 1));
        for text in ["a &amp; b", "panel", "a line", "a limit", "cycles", ">0.2<", ">10<", "foot"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        // The two points of the line that are within, and no third.
        assert!(svg.contains("points=\"56.0,372.0 226.0,72.0\""), "{svg}");
        assert!(!svg.contains("not named") && !svg.contains("NaN"));
    }
}
