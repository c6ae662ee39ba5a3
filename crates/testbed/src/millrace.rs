//! The Millrace under test: its program, and its start.

use crate::surroundings::Surroundings;
use clap::ValueEnum;
use lab::millrace::config::{self, Configuration, RawWorker, pinned};
use lab::millrace::{Files, Millrace, Start};
use lab::process::{Interrupt, Launch};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// How its worker rests while there are no frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// Sleeps until a queue has something.
    Sleep,
    /// Polls less and less often.
    Backoff,
    /// Polls on.
    Poll,
}

impl std::fmt::Display for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Idle::Sleep => "sleep",
            Idle::Backoff => "backoff",
            Idle::Poll => "poll",
        })
    }
}

impl Idle {
    /// Returns a worker on this processor that rests so.
    pub fn worker(self, cpu: usize) -> RawWorker {
        let worker = match self {
            Idle::Sleep => config::sleeper(),
            Idle::Backoff => config::backing_off(),
            Idle::Poll => config::polling(),
        };
        pinned(cpu, worker)
    }
}

/// Error of using Millrace.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum MillraceError {
    #[error("there is no program at {}; install the package of Millrace with it, or build it by `cargo build --release -p {package}`{hint}", path.display())]
    Missing { path: PathBuf, package: &'static str, hint: &'static str },
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error("its flows can't be set by ovs-ofctl, of the Debian package openvswitch-common: {0}")]
    Flows(std::io::Error),
}

/// Returns the program of this name, built from this package, in the directory of this program.
pub fn beside(name: &str, package: &'static str, hint: &'static str) -> Result<PathBuf, MillraceError> {
    let path = std::env::current_exe().map(|own| own.with_file_name(name)).unwrap_or_default();
    if path.is_file() { Ok(path) } else { Err(MillraceError::Missing { path, package, hint }) }
}

/// Returns the program to run: `given`, or else the one next to this program.
pub fn program(given: Option<&Path>) -> Result<PathBuf, MillraceError> {
    const HINT: &str = ", or name another by --millrace";
    match given {
        None => beside("millrace", "millrace", HINT),
        Some(path) if path.is_file() => Ok(path.to_owned()),
        Some(path) => Err(MillraceError::Missing { path: path.to_owned(), package: "millrace", hint: HINT }),
    }
}

/// Starts the program at `path` as a part of a measurement, and waits until it answers.
pub fn start(
    path: &Path,
    files: Files,
    configuration: impl Configuration,
    surroundings: Surroundings<'_>,
    interrupt: &Interrupt,
) -> lab::Result<Millrace> {
    files.configure(configuration)?;
    let start = Start::new(path).by(surroundings.command(path)).arguments(&["--log", "warn"]);
    start.launch(Launch::measured("Millrace", interrupt)).start(files)
}

/// Fails unless Millrace takes a configuration.
#[cfg(test)]
pub fn assert_takes(configuration: impl Configuration) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("m.toml");
    let text = configuration.text();
    std::fs::write(&file, &text).unwrap();
    let read = ::millrace::config::Config::load(&file);
    assert!(read.is_ok(), "{text}\n{read:?}");
}
