//! The summary in Markdown: the verdict, and a table for each panel.

use super::contents::Report;
use super::figures::{Figure, Panel};
use super::read::Set;
use super::verdict::Finding;
use std::fmt::{self, Write};

/// Writes the summary.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    write(report, &mut text).expect("a string takes everything");
    text
}

fn write(report: &Report, out: &mut String) -> fmt::Result {
    let (verdict, cast) = (&report.verdict, &report.study.cast);
    writeln!(out, "# {}\n\n{}\n", plain(report.title()), verdict.sentences(cast).join(" "))?;
    let behind = verdict.behind();
    if !behind.is_empty() {
        writeln!(out, "## Where Millrace is not first\n")?;
        behind.iter().try_for_each(|finding| lost(out, finding, report))?;
        writeln!(out)?;
    }
    if !verdict.missing.is_empty() {
        writeln!(out, "## Where Millrace has no result\n")?;
        verdict.missing.iter().try_for_each(|test| writeln!(out, "- {}", plain(test)))?;
        writeln!(out)?;
    }
    rivals(out, report)?;
    writeln!(out, "## Rig\n")?;
    for set in &report.study.sets {
        writeln!(
            out,
            "- {}: {}. {}",
            plain(&set.name),
            plain(&set.words().join(", ")),
            set.warning().unwrap_or_default()
        )?;
    }
    writeln!(out)?;
    report.figures.iter().try_for_each(|figure| self::figure(out, figure, report))?;
    failed(out, report)?;
    comparisons(out, report)
}

fn lost(out: &mut String, finding: &Finding, report: &Report) -> fmt::Result {
    writeln!(out, "- {} {}", finding.sentence(&report.study.cast), finding.conditions.tuple())?;
    finding.notes.iter().try_for_each(|note| writeln!(out, "  - {}", plain(note)))
}

fn rivals(out: &mut String, report: &Report) -> fmt::Result {
    let metrics = report.verdict.metrics();
    if metrics.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "## Millrace compared with each\n\nMillrace's result divided by the other one's. Above 1 is better for packets and \
                   rates, below 1 for round trips.\n"
    )?;
    row(out, std::iter::once("Millrace by".to_owned()).chain(metrics.iter().map(|metric| metric.words().to_owned())))?;
    rule(out, metrics.len() + 1)?;
    for rival in report.study.cast.all() {
        let cells: Vec<_> = metrics.iter().map(|metric| report.verdict.cell(rival, *metric)).collect();
        if cells.iter().any(Option::is_some) {
            let words = cells.iter().map(|cell| cell.as_ref().map_or("-".to_owned(), |cell| cell.words().join(", ")));
            row(out, std::iter::once(report.study.cast.name(rival)).chain(words))?;
        }
    }
    writeln!(out)
}

fn figure(out: &mut String, figure: &Figure, report: &Report) -> fmt::Result {
    let paper = figure.paper.map(|paper| format!(" (the paper's {paper})")).unwrap_or_default();
    writeln!(out, "## {}{paper}\n\n{}\n\nIn all tables: {}.\n", figure.title, figure.about, figure.common.join(", "))?;
    figure.panels.iter().try_for_each(|panel| self::panel(out, figure, panel, report))
}

fn panel(out: &mut String, figure: &Figure, panel: &Panel, report: &Report) -> fmt::Result {
    let table = figure.table(panel, &report.study.cast);
    let title = if panel.title.is_empty() { figure.title } else { &panel.title };
    writeln!(out, "### {title}\n\n{} {}; {}\n", figure.up.label, panel.tuple, panel.distance)?;
    let columns = table.heads.len();
    row(out, table.heads)?;
    rule(out, columns)?;
    table.rows.into_iter().try_for_each(|cells| row(out, cells))?;
    writeln!(out)
}

fn failed(out: &mut String, report: &Report) -> fmt::Result {
    let failures: Vec<_> = report.study.sets.iter().flat_map(Set::failures).collect();
    if failures.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Failed runs\n")?;
    row(out, ["test", "rounds", "reason"].map(String::from))?;
    rule(out, 3)?;
    for (point, rounds, reason) in failures {
        row(out, [point, rounds.to_string(), plain(reason)])?;
    }
    writeln!(out)
}

fn comparisons(out: &mut String, report: &Report) -> fmt::Result {
    if report.verdict.findings.is_empty() {
        return Ok(());
    }
    writeln!(out, "## All comparisons\n\nNotes refer to these names.\n")?;
    row(out, ["finding", "ratio", "interval", "outcome"].map(String::from))?;
    rule(out, 4)?;
    for finding in &report.verdict.findings {
        let ratio = &finding.ratio;
        let interval = format!("{:.3} to {:.3}", ratio.low, ratio.high);
        row(out, [finding.name(), format!("{:.3}", ratio.median), interval, finding.outcome().to_owned()])?;
    }
    Ok(())
}

fn row(out: &mut String, cells: impl IntoIterator<Item = String>) -> fmt::Result {
    cells.into_iter().try_for_each(|cell| write!(out, "| {cell} "))?;
    writeln!(out, "|")
}

fn rule(out: &mut String, columns: usize) -> fmt::Result {
    writeln!(out, "{}|", "|---".repeat(columns))
}

/// Keeps a text that is not ours in its line and its cell, and from being markup.
fn plain(text: &str) -> String {
    let spaced = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_markup = |c: char| "\\`*_[]<>|#&".contains(c);
    spaced.chars().flat_map(|c| is_markup(c).then_some('\\').into_iter().chain([c])).collect()
}
