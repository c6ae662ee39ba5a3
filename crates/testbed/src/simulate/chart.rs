//! Charts of the studies.

use super::figures::{Row, Stage};
use super::node::Node;
use super::published;
use super::studies::Study;
use super::topology::Kind;
use crate::draw::{self, Line, Lines};
use crate::record::{Record, rounded};

/// Draws a chart of these rows.
type Draw = fn(&Record<Row>, &[&Row]) -> String;

/// Draws all charts that there are figures for, with their file names.
pub fn all(record: &Record<Row>) -> Vec<(&'static str, String)> {
    let all: [(&str, Study, Draw); 4] = [
        ("chart.svg", Study::Paper, paper),
        ("nodes.svg", Study::Nodes, nodes),
        ("traffic.svg", Study::Traffic, traffic),
        ("hold.svg", Study::Hold, hold),
    ];
    let drawn = all.into_iter().filter_map(|(name, study, draw)| {
        let rows: Vec<&Row> = record.figures.iter().filter(|row| row.study == study).collect();
        (!rows.is_empty()).then(|| (name, draw(record, &rows)))
    });
    drawn.collect()
}

/// Returns the different values of rows, in their order.
fn values<T: PartialEq>(rows: &[&Row], of: impl Fn(&Row) -> T) -> Vec<T> {
    let mut all = Vec::new();
    for value in rows.iter().map(|row| of(row)) {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// Frames in percent of packets on the paper's links, with the published ones.
fn paper(record: &Record<Row>, rows: &[&Row]) -> String {
    let panel = |&topology: &Kind| {
        let links = published::of(topology);
        let percent = |link: &published::Published| Some(rounded(100.0 * link.with as f64 / link.carried(), 2));
        let line = |row: &&&Row| {
            let percent = |stage: &Stage| Some(rounded(100.0 / stage.held(), 2));
            Line { name: row.node.to_string(), values: row.stages.iter().map(percent).collect() }
        };
        let published = Line { name: "published".into(), values: links.iter().map(percent).collect() };
        let simulated = rows.iter().filter(|row| row.topology == topology);
        (topology.to_string(), std::iter::once(published).chain(simulated.map(|row| line(&row))).collect())
    };
    draw::svg(&Lines {
        title: "Simulated: frames in percent of the packets in them".into(),
        axis: "link".into(),
        marks: rows[0].stages.iter().map(|stage| stage.name.clone()).collect(),
        panels: values(rows, |row| row.topology).iter().map(panel).collect(),
        limits: Vec::new(),
        foot: record.foot().join("; "),
    })
}

/// A panel with a line for each kind of node.
fn panel<T: PartialEq>(
    title: &str,
    rows: &[&Row],
    marks: &[T],
    mark: impl Fn(&Row) -> T,
    value: impl Fn(&Row) -> f64,
) -> (String, Vec<Line>) {
    let line = |node: &Node| {
        let at =
            |of: &T| rows.iter().find(|row| row.node == *node && mark(row) == *of).map(|row| rounded(value(row), 2));
        Line { name: node.to_string(), values: marks.iter().map(at).collect() }
    };
    (title.to_owned(), values(rows, |row| row.node).iter().map(line).collect())
}

fn nodes(record: &Record<Row>, rows: &[&Row]) -> String {
    let marks = values(rows, |row| row.topology);
    draw::svg(&Lines {
        title: "Simulated: frames saved in trees of more and more nodes, in percent".into(),
        axis: "nodes".into(),
        marks: marks.iter().map(|kind| kind.to_string().replace("tree of ", "")).collect(),
        panels: vec![
            panel("all links", rows, &marks, |row| row.topology, Row::saved_percent),
            panel("before the sink", rows, &marks, |row| row.topology, |row| row.last().saved_percent()),
        ],
        limits: Vec::new(),
        foot: record.foot().join("; "),
    })
}

fn traffic(record: &Record<Row>, rows: &[&Row]) -> String {
    let marks = values(rows, |row| row.arrivals);
    let of_sizes = |sizes| {
        let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.sizes == sizes).collect();
        panel(&sizes.to_string(), &rows, &marks, |row| row.arrivals, Row::saved_percent)
    };
    draw::svg(&Lines {
        title: "Simulated: frames saved on all links, by traffic, in percent".into(),
        axis: "sources".into(),
        marks: marks.iter().map(ToString::to_string).collect(),
        panels: values(rows, |row| row.sizes).into_iter().map(of_sizes).collect(),
        limits: Vec::new(),
        foot: record.foot().join("; "),
    })
}

fn hold(record: &Record<Row>, rows: &[&Row]) -> String {
    let marks = values(rows, |row| row.hold_us.to_string());
    let mark = |row: &Row| row.hold_us.to_string();
    draw::svg(&Lines {
        title: "Simulated: packets held for others, random traffic".into(),
        axis: "µs that a packet is held at most".into(),
        marks: marks.clone(),
        panels: vec![
            panel("frames saved on all links, %", rows, &marks, mark, Row::saved_percent),
            panel("mean time from source to sink, µs", rows, &marks, mark, |row| row.with.mean_us),
        ],
        limits: Vec::new(),
        foot: record.foot().join("; "),
    })
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::rows;
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn each_study_has_its_chart_with_all_points() {
        let machine = Machine::detect(std::path::Path::new("/"));
        let charts = |study| all(&Record::new(&machine, &[], rows(study)));
        // Two topologies with published figures and two nodes; two trees; four kinds of sources; five holding times.
        for (study, name, dots) in [
            (Study::Paper, "chart.svg", 2 * 3 * 3),
            (Study::Nodes, "nodes.svg", 2 * 2 * 2),
            (Study::Traffic, "traffic.svg", 2 * 2 * 4),
            (Study::Hold, "hold.svg", 2 * 5),
        ] {
            let charts = charts(study);
            let [(of, chart)] = &charts[..] else { panic!("{study}: {} charts", charts.len()) };
            assert_eq!((*of, chart.matches("<circle").count()), (name, dots), "{study}");
        }
        assert!(charts(Study::Loss).is_empty());
    }
}
