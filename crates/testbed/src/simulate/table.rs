//! Results as tables in Markdown: one for each study.

use super::figures::{Row, Stage};
use super::published;
use super::studies::Study;
use crate::record::Record;
use clap::ValueEnum;
use std::fmt::Write;

/// Writes the tables, with the rig below them.
pub fn markdown(record: &Record<Row>) -> String {
    let mut text = String::new();
    for study in Study::value_variants() {
        let rows: Vec<&Row> = record.figures.iter().filter(|row| row.study == *study).collect();
        if rows.is_empty() {
            continue;
        }
        let help = study.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string));
        let _ = writeln!(text, "{study}: {}\n", help.unwrap_or_default());
        text += &if *study == Study::Paper { links(&rows) } else { cases(&rows) };
        text += "\n";
    }
    format!("{text}{}.\n\n{}\n", record.note.as_deref().unwrap_or_default(), record.foot().join("  \n"))
}

/// Writes a row for each of the links that the paper has figures of, with these figures.
fn links(rows: &[&Row]) -> String {
    let mut text = "| topology | node | link | frames without | with | saved, % | packets a frame | most | bytes a frame | cycles a packet, without | with | waiting without |\n\
                    |---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    let mut topologies: Vec<_> = rows.iter().map(|row| row.topology).collect();
    topologies.dedup();
    for topology in topologies {
        for link in published::of(topology) {
            let published::Published { link: name, without, with, bytes } = *link;
            let _ = writeln!(
                text,
                "| {topology} | published | {name} | {without} | {with} | {:.1} | {:.2} | - | {bytes:.1} | - | - | - |",
                link.saved_percent(),
                link.carried() / with as f64,
            );
        }
        if let Some((_, said)) = published::SAID.iter().find(|(of, _)| *of == topology) {
            let _ = writeln!(text, "| {topology} | its text | i-sink | - | - | {said} | - | - | - | - | - | - |");
        }
        for row in rows.iter().filter(|row| row.topology == topology) {
            for stage in &row.stages {
                let Stage { name, frames: [without, with], bytes: [_, bytes], most, cycles, .. } = stage;
                let _ = writeln!(
                    text,
                    "| {topology} | {} | {name} | {without} | {with} | {:.1} | {:.2} | {most} | {bytes:.1} | {} | {} | {} |",
                    row.node,
                    stage.saved_percent(),
                    stage.held(),
                    known(cycles[0]),
                    known(cycles[1]),
                    row.without.waiting,
                );
            }
        }
    }
    text
}

/// Writes a row for each case, with the sums of each stage.
fn cases(rows: &[&Row]) -> String {
    let mut text = "| network | node | traffic | packets | conditions | packets a frame, by stage | saved on all links, % | on the last | \
                    cycles a packet, without | with | lost of 10^6, without | with | in a lost frame | mean µs, without | with |\n\
                    |---|---|---|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for row in rows {
        let held: Vec<String> = row.stages.iter().map(|stage| format!("{:.1}", stage.held())).collect();
        let lost = |lost: u64| format!("{:.0}", 1e6 * lost as f64 / row.sent.max(1) as f64);
        let in_frame = row.with.lost as f64 / row.with.lost_frames.max(1) as f64;
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {:.1} | {:.1} | {} | {} | {} | {} | {in_frame:.1} | {:.1} | {:.1} |",
            row.topology,
            row.node,
            row.arrivals,
            row.sizes,
            conditions(row),
            held.join(" "),
            row.saved_percent(),
            row.last().saved_percent(),
            known(row.without.cycles),
            known(row.with.cycles),
            lost(row.without.lost),
            lost(row.with.lost),
            row.without.mean_us,
            row.with.mean_us,
        );
    }
    text
}

/// Returns the cycles as text; `-` for the paper's node, whose cycles are unknown.
fn known(cycles: f64) -> String {
    if cycles > 0.0 { cycles.to_string() } else { "-".to_owned() }
}

/// Describes the parameters that the study varies besides network, node and traffic.
fn conditions(row: &Row) -> String {
    match row.study {
        Study::Paper | Study::Nodes | Study::Traffic => String::new(),
        Study::OneNode => format!("{} M a second", row.pps / 1e6),
        Study::Loss => format!("loss {}, {} µs", row.loss, row.delay_us),
        Study::Hold => format!("held {} µs", row.hold_us),
        Study::NextHop => (if row.by_chain { "by chain" } else { "by packet" }).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::rows;
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn each_study_has_its_table_and_the_paper_its_published_figures() {
        let machine = Machine::detect(std::path::Path::new("/"));
        let all: Vec<Row> = Study::value_variants().iter().flat_map(|&study| rows(study)).collect();
        let text = markdown(&Record::new(&machine, &["a note".to_owned()], all));
        for line in [
            "| topology I | published | i-sink | 4865252 | 440596 | 90.9 | 14.19 | - | 897.6 | - | - | - |",
            "| topology II | its text | i-sink | - | - | 75 | - | - | - | - | - | - |",
            "| topology I | rings | 1-i | 100 | 25 | 75.0 | 4.00 | 4 | 640.0 | 1000 | 250 | 14 |",
            "| tree of 21 | rings | on-off | 64 bytes |  | 4.0 4.0 4.0 | 75.0 | 75.0 | 1000 | 250 | 0 | 0 | 0.0 | 1.5 | 1.5 |",
            "| one node | rings | smooth | 64 bytes | 0.1 M a second |",
            "| held 5 µs |",
            "| loss 0.001, 100 µs |",
            "| by chain |",
            "a note.",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
