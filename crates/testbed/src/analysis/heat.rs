//! Heat maps: a figure for each pair of two conditions, as a field that is darker the greater the figure, in panels arranged in
//! rows and columns.

use crate::draw::Svg;

const LEFT: f64 = 86.0;
const TOP: f64 = 56.0;
/// Space above each panel for its title, and below it for its columns' names.
const TITLE: f64 = 34.0;
const AXIS: f64 = 40.0;
const FIELD: (f64, f64) = (58.0, 24.0);

/// One panel.
pub struct Panel {
    pub title: String,
    /// Fields row by row; those not measured stay empty.
    pub fields: Vec<Vec<Option<f64>>>,
}

/// A heat map.
pub struct Heat {
    pub title: String,
    /// Labels of the columns' and rows' axes.
    pub axes: [String; 2],
    pub columns: Vec<String>,
    pub rows: Vec<String>,
    /// Panels row by row.
    pub panels: Vec<Vec<Panel>>,
    pub foot: String,
}

/// Draws the heat map.
pub fn svg(heat: &Heat) -> String {
    let across = heat.panels.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let panel = (heat.columns.len() as f64 * FIELD.0 + LEFT, heat.rows.len() as f64 * FIELD.1 + TITLE + AXIS);
    let height = TOP + heat.panels.len() as f64 * panel.1 + 24.0;
    let mut svg = Svg::new((across * panel.0 + 24.0).max(640.0), height);
    svg.label((LEFT, 24.0), "start", 16, &heat.title);
    svg.label((LEFT, 44.0), "start", 12, &format!("down: {}; across: {}", heat.axes[1], heat.axes[0]));
    let all = heat.panels.iter().flatten().flat_map(|panel| panel.fields.iter().flatten().flatten());
    let greatest = all.copied().fold(1e-9, f64::max);
    for (down, row) in heat.panels.iter().enumerate() {
        for (right, one) in row.iter().enumerate() {
            let corner = (right as f64 * panel.0 + LEFT, TOP + down as f64 * panel.1 + TITLE);
            draw(&mut svg, corner, one, heat, greatest);
        }
    }
    svg.label((LEFT, height - 8.0), "start", 9, &heat.foot);
    svg.end()
}

fn draw(svg: &mut Svg, corner: (f64, f64), panel: &Panel, heat: &Heat, greatest: f64) {
    svg.label((corner.0, corner.1 - 10.0), "start", 13, &panel.title);
    for (row, (name, fields)) in heat.rows.iter().zip(&panel.fields).enumerate() {
        let y = corner.1 + row as f64 * FIELD.1;
        svg.label((corner.0 - 8.0, y + 16.0), "end", 12, name);
        for (column, value) in fields.iter().enumerate() {
            let x = corner.0 + column as f64 * FIELD.0;
            let Some(value) = value else { continue };
            let share = value / greatest;
            svg.rectangle((x, y), (FIELD.0 - 2.0, FIELD.1 - 2.0), &colour(share));
            let colour = if share > 0.6 { "#ffffff" } else { "#000000" };
            svg.figure((x + FIELD.0 / 2.0 - 1.0, y + 16.0), colour, &format!("{value:.1}"));
        }
    }
    let below = corner.1 + heat.rows.len() as f64 * FIELD.1 + 14.0;
    for (column, name) in heat.columns.iter().enumerate() {
        svg.label((corner.0 + (column as f64 + 0.5) * FIELD.0, below), "middle", 12, name);
    }
}

/// Returns a colour from almost white to dark blue.
fn colour(share: f64) -> String {
    let between = |from: f64, to: f64| (from + (to - from) * share.clamp(0.0, 1.0)) as u8;
    format!("#{:02x}{:02x}{:02x}", between(240.0, 10.0), between(246.0, 70.0), between(252.0, 130.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_figure() {
        let panel =
            |value| Panel { title: "p".into(), fields: vec![vec![Some(value), None], vec![Some(2.0), Some(3.0)]] };
        let heat = Heat {
            title: "t".into(),
            axes: ["x".into(), "y".into()],
            columns: vec!["64".into(), "256".into()],
            rows: vec!["64".into(), "256".into()],
            panels: vec![vec![panel(1.0), panel(12.5)], vec![panel(4.0)]],
            foot: "f".into(),
        };
        let svg = svg(&heat);
        assert_eq!(svg.matches("text-anchor=\"middle\" fill").count(), 9);
        assert!(svg.contains(">12.5<") && svg.contains(&colour(1.0)) && !svg.contains("=\"-"), "{svg}");
    }
}
