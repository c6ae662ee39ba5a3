//! The report of measured scenarios: a page that stands alone, and a summary in Markdown.
//!
//! [`read`] takes the runs of each directory, [`figures`] and [`verdict`] select and compare them, and [`page`] and
//! [`markdown`] write the results. Only runs of one directory, of equal conditions and of equal distance of the processors
//! are ever compared ([`selection`]).

mod cast;
mod conditions;
mod contents;
mod figures;
mod markdown;
mod note;
mod numbers;
mod page;
mod read;
mod run;
#[cfg(test)]
#[path = "../../tests/report/sample.rs"]
mod sample;
mod selection;
mod sets;
mod study;
#[cfg(test)]
mod tests;
mod verdict;

use clap::Args;
use contents::Report;
pub use read::ReportError;
use read::Set;
use std::path::PathBuf;

/// Options of `testbed report`.
#[derive(Clone, Debug, Args)]
pub struct WriteReport {
    /// Directories that `testbed run` has written. A file notes.toml in one of them gives reasons for findings:
    /// [[note]] finding = "WORDS OF ITS NAME" text = "..."
    #[arg(required = true, value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// The page to write, with summary.md beside it; by default report.html in the first directory
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Writes the page and the summary, and returns the path of the page.
pub fn run(options: &WriteReport) -> Result<PathBuf, ReportError> {
    let sets: Vec<Set> = options.directories.iter().map(|path| read::read(path)).collect::<Result<_, _>>()?;
    let report = Report::of(sets);
    for (set, path) in report.study.sets.iter().zip(&options.directories) {
        if let Some(note) = report.unused_note(set) {
            return Err(ReportError::NoFinding { path: path.clone(), finding: note.finding.clone() });
        }
    }
    let path = options.out.clone().unwrap_or_else(|| options.directories[0].join("report.html"));
    let write =
        |path: PathBuf, text: String| std::fs::write(&path, text).map_err(|source| ReportError::Write { path, source });
    write(path.with_file_name("summary.md"), markdown::text(&report))?;
    write(path.clone(), page::html(&report))?;
    Ok(path)
}
