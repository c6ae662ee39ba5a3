//! Reads directories of runs.

use super::note::Note;
use super::run::{Failed, Run};
use crate::record::Rig;
use crate::run::{RIG, RUNS, SCENARIO, StoreError, stored};
use serde::Deserialize;
use std::io;
use std::path::{Path, PathBuf};

/// The runs of one directory.
#[derive(Debug)]
pub struct Set {
    /// Name of the directory.
    pub name: String,
    /// Title of the scenario.
    pub title: Option<String>,
    /// Their origin.
    pub origin: Origin,
    /// The scenario file, if it was kept.
    pub scenario: Option<String>,
    /// Reasons for single findings.
    pub notes: Vec<Note>,
    /// Runs with results, in the order in which they were made.
    pub runs: Vec<Run>,
    /// The others.
    pub failed: Vec<Failed>,
}

/// The origin of runs: the content of `rig.json`.
#[derive(Debug, Deserialize)]
pub struct Origin {
    /// The machine.
    #[serde(flatten)]
    pub rig: Rig,
    /// Date and time, UTC.
    pub date: String,
    /// Version of Millrace's sources.
    #[serde(default)]
    pub commit: Option<String>,
    /// The command.
    #[serde(default)]
    pub command: Option<String>,
    /// The machine of the second host, if it is another one.
    #[serde(default)]
    pub other: Option<Rig>,
}

/// The file `notes.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Notes {
    #[serde(default)]
    note: Vec<Note>,
}

/// Error of a report.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ReportError {
    #[error("{} can't be read: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} can't be read: {source}", path.display())]
    Rig { path: PathBuf, source: serde_json::Error },
    #[error(transparent)]
    Runs(#[from] StoreError),
    #[error("{0}")]
    Notes(settings::Report),
    #[error("no finding of {} has all words of {finding:?}, which notes.toml has a note for; summary.md lists the findings", path.display())]
    NoFinding { path: PathBuf, finding: String },
    #[error("the report can't be written to {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Reads the runs of a directory.
pub fn read(directory: &Path) -> Result<Set, ReportError> {
    let rig = directory.join(RIG);
    let origin = serde_json::from_str(&text(&rig)?).map_err(|source| ReportError::Rig { path: rig, source })?;
    let (runs, failed) = runs(&directory.join(RUNS))?;
    let name = directory.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let scenario = optional_text(&directory.join(SCENARIO))?;
    Ok(Set {
        title: scenario.as_deref().and_then(title),
        name: name.unwrap_or_else(|| directory.display().to_string()),
        origin,
        scenario,
        notes: notes(&directory.join("notes.toml"))?,
        runs,
        failed,
    })
}

fn runs(path: &Path) -> Result<(Vec<Run>, Vec<Failed>), ReportError> {
    let (mut runs, mut failed): (Vec<Run>, Vec<Failed>) = Default::default();
    for record in stored(path)? {
        match Run::of(record) {
            Ok(run) => runs.push(run),
            Err(run) => failed.push(run),
        }
    }
    // A run that was repeated after an error has its result.
    failed.retain(|failed| !runs.iter().any(|run| (&run.point, run.round) == (&failed.point, failed.round)));
    Ok((runs, failed))
}

fn title(scenario: &str) -> Option<String> {
    let table: toml::Table = scenario.parse().ok()?;
    Some(table.get("title")?.as_str()?.to_owned())
}

fn notes(path: &Path) -> Result<Vec<Note>, ReportError> {
    let Some(text) = optional_text(path)? else { return Ok(Vec::new()) };
    let read = settings::read::<Notes>(&text);
    let report = settings::Report::new(path, &text, read.problems);
    if report.has_errors() { Err(ReportError::Notes(report)) } else { Ok(read.file.unwrap_or_default().note) }
}

fn text(path: &Path) -> Result<String, ReportError> {
    std::fs::read_to_string(path).map_err(|source| ReportError::Read { path: path.to_owned(), source })
}

fn optional_text(path: &Path) -> Result<Option<String>, ReportError> {
    match text(path) {
        Err(ReportError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}
