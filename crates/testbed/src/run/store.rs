//! The directory of a scenario's results: `scenario.toml`, `rig.json`, and `runs.jsonl` with a line for each run. A run that is
//! stored is not made again, so a scenario can be stopped and resumed.

use super::record::RunRecord;
use crate::machine::Machine;
use crate::record::command;
use crate::scenario::Point;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Names of the files.
pub const SCENARIO: &str = "scenario.toml";
/// The machine.
pub const RIG: &str = "rig.json";
/// The runs.
pub const RUNS: &str = "runs.jsonl";

/// Error of the directory.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum StoreError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(
        "{} holds results of another scenario: give a new directory by --out, or remove this one",
        directory.display()
    )]
    Other { directory: PathBuf },
    #[error("{}, line {line}: {source}; remove the line to have that run repeated", path.display())]
    Line { path: PathBuf, line: usize, source: serde_json::Error },
}

/// Results of a scenario.
pub struct Store {
    directory: PathBuf,
    runs: Vec<RunRecord>,
    file: File,
}

impl Store {
    /// Opens the directory for this scenario, and makes it if it is missing. Runs that failed are forgotten, so that they are
    /// repeated.
    pub fn open(directory: &Path, scenario: &str, machine: &Machine) -> Result<Store, StoreError> {
        fs::create_dir_all(directory).map_err(file_error(directory))?;
        let kept = directory.join(SCENARIO);
        match fs::read_to_string(&kept) {
            Ok(text) if text == scenario => {}
            Ok(_) => return Err(StoreError::Other { directory: directory.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => write(&kept, scenario)?,
            Err(error) => return Err(file_error(&kept)(error)),
        }
        let rig = directory.join(RIG);
        if !rig.exists() {
            let mut rig_text = serde_json::to_value(machine).expect("numbers and strings");
            rig_text["command"] = command(std::env::args().skip(1)).into();
            write(&rig, &format!("{rig_text:#}\n"))?;
        }
        let path = directory.join(RUNS);
        let mut kept = if path.exists() { lines(&path)? } else { Vec::new() };
        kept.retain(|(_, run)| run.error.is_none());
        // The file ends with a whole line, also if a run was cut off while it was written.
        write(&path, &kept.iter().map(|(line, _)| format!("{line}\n")).collect::<String>())?;
        let runs = kept.into_iter().map(|(_, run)| run).collect();
        let file = OpenOptions::new().append(true).open(&path).map_err(file_error(&path))?;
        Ok(Store { directory: directory.to_owned(), runs, file })
    }

    /// Returns the run of this point and round, if it was made.
    pub fn find(&self, point: &Point, round: u32) -> Option<&RunRecord> {
        self.runs.iter().find(|run| run.round == round && run.point == *point)
    }

    /// Adds a run.
    pub fn add(&mut self, run: RunRecord) -> Result<(), StoreError> {
        self.file.write_all(line(&run).as_bytes()).map_err(file_error(&self.directory.join(RUNS)))?;
        self.runs.push(run);
        Ok(())
    }

    /// Returns all runs.
    pub fn runs(&self) -> &[RunRecord] {
        &self.runs
    }
}

/// Returns the runs of a file. The last line may be incomplete: it is left out.
pub fn stored(path: &Path) -> Result<Vec<RunRecord>, StoreError> {
    Ok(lines(path)?.into_iter().map(|(_, run)| run).collect())
}

/// Returns the runs of a file with their lines: rewriting them might change the last digit of a number.
fn lines(path: &Path) -> Result<Vec<(String, RunRecord)>, StoreError> {
    let text = fs::read_to_string(path).map_err(file_error(path))?;
    let last = text.lines().count();
    let mut runs = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        match serde_json::from_str(line) {
            Ok(run) => runs.push((line.to_owned(), run)),
            Err(_) if number == last && !text.ends_with('\n') => {}
            Err(source) => return Err(StoreError::Line { path: path.to_owned(), line: number, source }),
        }
    }
    Ok(runs)
}

fn line(run: &RunRecord) -> String {
    serde_json::to_string(run).expect("numbers and strings") + "\n"
}

fn write(path: &Path, text: &str) -> Result<(), StoreError> {
    fs::write(path, text).map_err(file_error(path))
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    |source| StoreError::File { path, source }
}
