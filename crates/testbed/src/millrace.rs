//! A Millrace process with a connection to its control socket.

use crate::surroundings::Surroundings;
use ::millrace::control::{Client, ClientError};
use clap::ValueEnum;
use engine::stats::Snapshot;
use lab::process::{Daemon, Interrupt, Launch};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit for its start, and for its ports to come up once a guest is there.
pub const LIMIT: Duration = Duration::from_secs(15);

/// How its worker rests while there are no frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// Sleeps until a queue has something.
    Sleep,
    /// Polls ever more rarely.
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

/// Error of using Millrace.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum MillraceError {
    #[error("there is no program at {}; build it by `cargo build --release -p {package}`{hint}", path.display())]
    Missing { path: PathBuf, package: &'static str, hint: &'static str },
    #[error("Millrace's configuration can't be written: {0}")]
    Configuration(std::io::Error),
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error("Millrace's control socket: {0}")]
    Control(#[from] ClientError),
    #[error("its flows can't be set by ovs-ofctl, of the Debian package openvswitch-common: {0}")]
    Flows(std::io::Error),
}

/// Returns the program of this name, built from this package, in the directory of this program.
pub fn beside(name: &str, package: &'static str, hint: &'static str) -> Result<PathBuf, MillraceError> {
    let path = std::env::current_exe().map(|own| own.with_file_name(name)).unwrap_or_default();
    if path.is_file() { Ok(path) } else { Err(MillraceError::Missing { path, package, hint }) }
}

/// Returns the program to run: `given`, or else the one beside this program.
pub fn program(given: Option<&Path>) -> Result<PathBuf, MillraceError> {
    const HINT: &str = ", or name another by --millrace";
    match given {
        None => beside("millrace", "millrace", HINT),
        Some(path) if path.is_file() => Ok(path.to_owned()),
        Some(path) => Err(MillraceError::Missing { path: path.to_owned(), package: "millrace", hint: HINT }),
    }
}

/// The files of a process.
#[derive(Clone, Copy)]
pub struct Files<'f> {
    /// Their directory.
    pub directory: &'f Path,
    /// Their name, without extension.
    pub name: &'f str,
}

/// A running Millrace.
pub struct Millrace {
    daemon: Daemon,
    client: Client,
    file: PathBuf,
    control: PathBuf,
}

impl Millrace {
    /// Starts the program at `path` with the configuration `text`, which has no section `[control]`, and waits until it
    /// answers.
    pub fn start(
        path: &Path,
        Files { directory, name }: Files<'_>,
        text: &str,
        surroundings: Surroundings<'_>,
        interrupt: &Interrupt,
    ) -> Result<Millrace, MillraceError> {
        let file = directory.join(format!("{name}.toml"));
        let control = directory.join(format!("{name}.ctl"));
        write(&file, &control, text)?;
        let mut command = surroundings.command(path);
        command.args(["run", "--log", "warn", "--config"]).arg(&file);
        let mut daemon = Launch::measured("Millrace", interrupt).spawn(command)?;
        let client = daemon.wait_for("its control socket", LIMIT, || Client::connect(&control).ok())?;
        Ok(Millrace { daemon, client, file, control })
    }

    /// Reloads with another configuration: unchanged ports are not affected.
    pub fn reload(&mut self, text: &str) -> Result<(), MillraceError> {
        write(&self.file, &self.control, text)?;
        self.client.call("reload")?;
        Ok(())
    }

    /// Returns all its counters.
    pub fn snapshot(&mut self) -> Result<Snapshot, MillraceError> {
        Ok(self.client.call_as("stats")?)
    }

    /// Waits until all ports can pass frames, as long as `guests` succeeds.
    pub fn wait_up(&mut self, mut guests: impl FnMut() -> lab::Result<()>) -> Result<(), MillraceError> {
        let Millrace { daemon, client, .. } = self;
        daemon.wait_for("its ports to be up", LIMIT, || {
            if let Err(error) = guests() {
                return Some(Err(error.into()));
            }
            match client.call_as::<Snapshot>("stats") {
                Ok(snapshot) => snapshot.ports.iter().all(|port| port.up).then_some(Ok(())),
                Err(error) => Some(Err(error.into())),
            }
        })?
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    /// Returns the process.
    pub fn daemon(&mut self) -> &mut Daemon {
        &mut self.daemon
    }
}

fn write(file: &Path, control: &Path, text: &str) -> Result<(), MillraceError> {
    let text = format!("{text}\n[control]\nsocket = {:?}\n", control.display().to_string());
    std::fs::write(file, text).map_err(MillraceError::Configuration)
}
