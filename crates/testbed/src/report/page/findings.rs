//! The verdict, and all comparisons.

use crate::report::contents::Report;
use crate::report::numbers::{counted, digits};
use crate::report::run::Contestant;
use crate::report::verdict::Finding;
use maud::{Markup, html};

/// Number of comparisons lost to one rival that are shown at once.
const SHOWN: usize = 4;

/// Writes the verdict: Millrace's losses come first.
pub fn verdict(report: &Report) -> Markup {
    let (verdict, cast) = (&report.verdict, &report.study.cast);
    html! {
        section #verdict {
            h2 { "Verdict" }
            p.lead { @for sentence in verdict.sentences(cast) { (sentence) " " } }
            @if !verdict.behind().is_empty() {
                h3 { "Where Millrace is not first" }
                @for group in groups(&verdict.behind()) {
                    div.lost {
                        @for note in &group[0].notes { p.note { (note) } }
                        ul { @for finding in group.iter().take(SHOWN) { (lost(report, finding)) } }
                        @if group.len() > SHOWN {
                            details {
                                summary { (group.len() - SHOWN) " more" }
                                ul { @for finding in group.iter().skip(SHOWN) { (lost(report, finding)) } }
                            }
                        }
                    }
                }
            }
            @if !verdict.missing.is_empty() {
                h3 { "Where Millrace has no result" }
                div.lost { ul { @for test in &verdict.missing { li { (test) } } } }
            }
            (rivals(report))
        }
    }
}

/// Groups findings that have the same rival and the same notes.
fn groups<'f>(findings: &[&'f Finding]) -> Vec<Vec<&'f Finding>> {
    let mut groups: Vec<Vec<&Finding>> = Vec::new();
    for finding in findings {
        let is_same =
            |group: &&mut Vec<&Finding>| (&group[0].rival, &group[0].notes) == (&finding.rival, &finding.notes);
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(finding),
            None => groups.push(vec![finding]),
        }
    }
    groups
}

fn lost(report: &Report, finding: &Finding) -> Markup {
    let words: Vec<_> = finding.conditions.words().into_iter().take(5).flatten().collect();
    html! {
        li title=(finding.conditions.tuple()) {
            b { (finding.sentence(&report.study.cast)) }
            span { (words.join(", ")) }
        }
    }
}

/// Writes a row for each rival: how Millrace compares to it in each metric.
fn rivals(report: &Report) -> Markup {
    let (verdict, metrics) = (&report.verdict, report.verdict.metrics());
    let has_row = |rival: &&Contestant| metrics.iter().any(|metric| verdict.cell(rival, *metric).is_some());
    let rivals: Vec<_> = report.study.cast.all().iter().filter(has_row).collect();
    html! {
        @if !rivals.is_empty() {
            h3 { "Millrace compared with each" }
            div.scroll tabindex="0" role="region" aria-label="Millrace compared with each other switch" {
                table.rivals {
                    caption { span {
                        "Millrace's result divided by the other one's, round by round: the least and the greatest median of all \
                         tests. Above 1 is better for packets and rates, below 1 for round trips. Switches that learn addresses \
                         are compared with Millrace as a learning bridge, and those that join pairs of ports with its wires \
                         between ports."
                    } }
                    thead { tr {
                        th scope="col" { "Millrace by" }
                        @for metric in &metrics { th scope="col" { (metric.words()) } }
                    } }
                    tbody { @for rival in rivals { tr {
                        th scope="row" { (report.study.cast.name(rival)) }
                        @for metric in &metrics {
                            @match verdict.cell(rival, *metric) {
                                Some(cell) => {
                                    @let [ratios, count] = cell.words();
                                    td.behind[cell.behind > 0] { b { (ratios) } small { (count) } }
                                }
                                None => td { "-" },
                            }
                        }
                    } } }
                }
            }
        }
    }
}

/// Writes all comparisons.
pub fn all(report: &Report) -> Markup {
    let cast = &report.study.cast;
    html! {
        section #comparisons {
            h2 { "All comparisons" }
            details {
                summary { (counted(report.verdict.findings.len(), "comparison")) " of Millrace with another switch" }
                div.scroll tabindex="0" role="region" aria-label="All comparisons" {
                    table {
                        thead { tr {
                            @for head in ["Test", "Millrace", "Other", "Ratio", "Interval", "Rounds", "Outcome"] {
                                th scope="col" { (head) }
                            }
                        } }
                        tbody { @for finding in &report.verdict.findings {
                            @let [ours, theirs] = &finding.results;
                            tr title=(finding.distance) {
                                th scope="row" { (finding.name()) }
                                td { (digits(ours.median)) " " (finding.metric.unit()) " " (cast.name(&finding.millrace)) }
                                td { (digits(theirs.median)) " " (cast.name(&finding.rival)) }
                                td { (format!("{:.3}", finding.ratio.median)) }
                                td { (format!("{:.3} to {:.3}", finding.ratio.low, finding.ratio.high)) }
                                td { (finding.ratio.rounds) }
                                td.behind[finding.is_behind()] { (finding.outcome()) }
                            }
                        } }
                    }
                }
            }
        }
    }
}
