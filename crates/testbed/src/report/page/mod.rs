//! The page: one HTML file that needs nothing else.

mod data;
mod figure;
mod findings;
mod method;
mod origin;

use super::contents::Report;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("../assets/report.css");
const SCRIPT: &str = include_str!("../assets/report.js");
/// uPlot 1.6.32 (MIT), from the package `uplot` of the npm registry.
const PLOT_STYLE: &str = include_str!("../assets/uplot/uPlot.min.css");
const PLOT_SCRIPT: &str = include_str!("../assets/uplot/uPlot.iife.min.js");
const PLOT_LICENCE: &str = include_str!("../assets/uplot/LICENSE");

/// A browser loads nothing from elsewhere, even if a text of the runs slipped through as markup.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// Writes the page.
pub fn html(report: &Report) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (report.title()) }
                link rel="icon" href="data:,";
                style { (PreEscaped(PLOT_STYLE)) (PreEscaped(STYLE)) }
            }
            body {
                header {
                    button #theme type="button" hidden { "Dark" }
                    h1 { (report.title()) }
                    p.lead {
                        "How many packets Millrace and other virtual switches carry between network functions, how long these \
                         take, and what that costs: the tests of Ara et al., with every switch in turn."
                    }
                    (origin::lines(report))
                }
                main {
                    (findings::verdict(report))
                    (contents(report))
                    @for figure in &report.figures { (figure::section(report, figure)) }
                    (findings::all(report))
                    (method::sections(report))
                }
                footer {
                    p { "Written by " code { "testbed report" } ". Plots are drawn by uPlot 1.6.32." }
                    details { summary { "Licence of uPlot" } pre { (PLOT_LICENCE) } }
                }
                noscript { p { "The plots need JavaScript. The tables below each of them have the same numbers." } }
                script #data type="application/json" { (PreEscaped(data::json(report))) }
                script { (PreEscaped(PLOT_SCRIPT)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn contents(report: &Report) -> Markup {
    html! {
        nav aria-label="Figures" {
            ul {
                @for figure in &report.figures { li { a href={ "#" (figure.id) } { (figure.title) } } }
                li { a href="#comparisons" { "All comparisons" } }
                li { a href="#failed" { "Failed runs" } }
                li { a href="#method" { "Method" } }
                li { a href="#commands" { "How this was run" } }
                li { a href="#terms" { "Terms" } }
            }
        }
    }
}
