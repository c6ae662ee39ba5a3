//! The origin of the runs: machine, time and method.

use crate::report::contents::Report;
use maud::{Markup, html};

/// Writes a line for each directory.
pub fn lines(report: &Report) -> Markup {
    html! {
        ul.rig {
            @for set in &report.study.sets {
                li {
                    @if report.study.sets.len() > 1 { b { (set.name) ": " } }
                    @for (number, part) in set.words().iter().enumerate() {
                        @if number > 0 { " · " }
                        span { (part) }
                    }
                    @if let Some(warning) = set.warning() { " " strong { (warning) } }
                }
            }
        }
    }
}
