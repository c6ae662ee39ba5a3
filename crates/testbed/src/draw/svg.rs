//! Elements common to all charts.

use std::fmt::Write;

/// Colours of lines, one after the other.
pub const COLOURS: [&str; 8] = ["#1f4e79", "#5b9bd5", "#8a5a00", "#e0a030", "#1d7a3a", "#70c080", "#b02030", "#7f50a0"];

/// An SVG picture under construction.
pub struct Svg(String);

impl Svg {
    /// Creates a white picture of this width and height.
    pub fn new(width: f64, height: f64) -> Svg {
        let mut svg = Svg(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        ));
        svg.rectangle((0.0, 0.0), (width, height), "#ffffff");
        svg
    }

    /// Draws a filled rectangle, given by its upper left corner and its size.
    pub fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(
            self.0,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        );
    }

    /// Draws a line through these points; `style` holds further attributes of its element.
    pub fn line(&mut self, points: &[(f64, f64)], colour: &str, style: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let points = points.join(" ");
        let _ = writeln!(self.0, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" {style}/>");
    }

    /// Draws a dot.
    pub fn dot(&mut self, (x, y): (f64, f64), colour: &str) {
        let _ = writeln!(self.0, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
    }

    /// Draws text.
    pub fn label(&mut self, (x, y): (f64, f64), anchor: &str, size: u32, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{text}</text>"
        );
    }

    /// Draws centred text in this colour.
    pub fn figure(&mut self, (x, y): (f64, f64), colour: &str, text: &str) {
        let _ =
            writeln!(self.0, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"{colour}\">{text}</text>");
    }

    /// Returns the finished picture.
    pub fn end(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}
