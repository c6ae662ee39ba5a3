//! A figure: its plots, their captions, and their tables.

use super::data;
use crate::report::cast::Look;
use crate::report::contents::Report;
use crate::report::figures::{Across, DataPoint, Figure, Panel, Series};
use crate::report::numbers::estimate;
use maud::{Markup, html};

/// Writes the section of a figure.
pub fn section(report: &Report, figure: &Figure) -> Markup {
    html! {
        section.figure id=(figure.id) {
            h2 { (figure.title) @if let Some(paper) = figure.paper { " " small { "the paper's " (paper) } } }
            p { (figure.about) }
            p.conditions { @if figure.panels.len() > 1 { "In all panels: " } @else { "Conditions: " } (figure.common.join(", ")) "." }
            @if matches!(figure.across, Across::Numbers { .. }) { (legend(report, figure)) }
            div.panels {
                @for (number, panel) in figure.panels.iter().enumerate() { (self::panel(report, figure, panel, number)) }
            }
        }
    }
}

fn panel(report: &Report, figure: &Figure, panel: &Panel, number: usize) -> Markup {
    let id = format!("{}-{number}", figure.id);
    let title = if panel.title.is_empty() { figure.title } else { &panel.title };
    html! {
        figure {
            figcaption {
                @if !panel.title.is_empty() { b { (panel.title) } }
                span.tuple { (panel.tuple) }
            }
            @match figure.across {
                Across::Numbers { label, .. } => {
                    p.up { (figure.up.label) }
                    div.plot id=(id) role="img" aria-label={ (title) ": " (figure.up.label) ", by " (label) ". The table below has the numbers." } {}
                }
                Across::Bars(names) => (bars(report, figure, panel, names)),
            }
            p.distance { (panel.distance) }
            @if matches!(figure.across, Across::Numbers { .. }) { (table(report, figure, panel)) }
        }
    }
}

/// Writes the names of all contestants of a figure, each with its line and its marker.
fn legend(report: &Report, figure: &Figure) -> Markup {
    let series = figure.panels.iter().flat_map(|panel| &panel.series);
    let all = report.study.cast.all().iter().filter(|one| series.clone().any(|series| series.contestant == **one));
    html! {
        ul.legend {
            @for contestant in all {
                @let Look { switch, technique } = report.study.cast.look(contestant);
                li {
                    svg.{ "look" (switch % data::LOOKS) } viewBox="-16 -8 32 16" width="32" height="16" aria-hidden="true" {
                        path d="M-16 0H16" stroke-dasharray=(data::DASHES[technique % data::DASHES.len()]) {}
                        path.marker d=(data::MARKERS[switch % data::LOOKS]) {}
                    }
                    (report.study.cast.name(contestant))
                }
            }
        }
    }
}

fn table(report: &Report, figure: &Figure, panel: &Panel) -> Markup {
    let table = figure.table(panel, &report.study.cast);
    html! {
        details {
            summary { "Numbers" }
            div.scroll tabindex="0" role="region" aria-label={ "Numbers: " (panel.title) } {
                table {
                    caption { (figure.up.label) ": median, and its interval" }
                    thead { tr { @for head in &table.heads { th scope="col" { (head) } } } }
                    tbody { @for row in &table.rows { tr {
                        @for (column, cell) in row.iter().enumerate() {
                            @if column == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                        }
                    } } }
                }
            }
        }
    }
}

/// Writes a table whose cells have bars.
fn bars(report: &Report, figure: &Figure, panel: &Panel, names: &[&str]) -> Markup {
    let spots = || panel.series.iter().flat_map(|series| &series.spots);
    let greatest = spots().map(|spot| spot.y.high).fold(0.0, f64::max);
    let percent = |value: f64| 100.0 * value / greatest;
    let bar = |series: &Series, spot: &DataPoint| {
        html! {
            @let look = report.study.cast.look(&series.contestant).switch % data::LOOKS;
            @let [low, high] = [spot.y.low, spot.y.high].map(percent);
            div.{ "bar look" (look) } {
                i style=(format!("width:{:.2}%", percent(spot.y.median))) {}
                u style=(format!("left:{low:.2}%;width:{:.2}%", high - low)) {}
            }
            span { (estimate(&spot.y)) }
        }
    };
    html! {
        table.bars {
            caption { (figure.up.label) ": median, and its interval" }
            tbody { @for series in &panel.series { @for (number, spot) in series.spots.iter().enumerate() { tr {
                @if number == 0 {
                    th scope="row" rowspan=(series.spots.len()) { (report.study.cast.name(&series.contestant)) }
                }
                @if names.len() > 1 { td { (figure.across.mark(spot.x)) } }
                td.wide { (bar(series, spot)) }
            } } } }
        }
    }
}
