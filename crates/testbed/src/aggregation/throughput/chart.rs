//! Charts of the results, one per path: millions of packets per second by packet size, a line per placement.

use super::results::{Results, Row};
use crate::aggregation::rig::Between;
use crate::draw::{self, Line, Lines};

/// Draws the charts; returns each with its path.
pub fn svg(results: &Results) -> Vec<(Between, String)> {
    let mut paths: Vec<Between> = results.rows.iter().map(|row| row.path).collect();
    paths.dedup();
    paths.into_iter().map(|path| (path, picture(results, path))).collect()
}

fn picture(results: &Results, path: Between) -> String {
    let rows: Vec<&Row> = results.rows.iter().filter(|row| row.path == path).collect();
    let placements = rows.first().map_or(Vec::new(), |row| row.placements());
    let lines = placements.into_iter().map(|placement| Line {
        name: placement.to_string(),
        values: rows.iter().map(|row| row.spread(placement, |load| load.mpps).map(|s| s.median)).collect(),
    });
    draw::svg(&Lines {
        title: format!("{path}: packets through two nodes and a function, Mpps"),
        axis: "bytes a packet".to_owned(),
        marks: rows.iter().map(|row| row.size.to_string()).collect(),
        panels: vec![(String::new(), lines.collect())],
        limits: Vec::new(),
        foot: results.rig.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::row;
    use super::*;
    use crate::aggregation::rig::Program;
    use crate::machine::Machine;

    #[test]
    fn a_picture_has_a_line_for_each_placement() {
        let rows = [(Between::Rings, 64), (Between::Rings, 512), (Between::Ovs, 64)];
        let results = Results {
            rig: Machine::detect(std::path::Path::new("/")),
            function: Program::default(),
            rounds: 1,
            seconds: 0.1,
            rows: rows.map(|(path, size)| row(path, size, &[[1.0, 4.0]])).into(),
            notes: Vec::new(),
        };
        let pictures = svg(&results);
        assert_eq!(pictures.iter().map(|(path, _)| *path).collect::<Vec<_>>(), [Between::Rings, Between::Ovs]);
        assert_eq!(pictures[0].1.matches("<circle").count(), 4);
        assert!(pictures[0].1.contains("vhost") && pictures[0].1.ends_with("</svg>\n"));
    }
}
