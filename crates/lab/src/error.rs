//! Errors of tests and measurements, detailed enough that the reader need not run them again.

use std::io;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// Result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of something that a test or measurement runs, or of running it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program is not installed.
    #[error("{tool} is not installed; install the packages of crates/e2e/debian-packages.txt")]
    MissingTool {
        /// The program's name.
        tool: String,
    },
    /// A system call failed.
    #[error("{action}: {source}")]
    Io {
        /// The attempted action.
        action: String,
        /// The cause.
        source: io::Error,
    },
    /// A command failed.
    #[error("`{command}` failed ({status}); it said:\n{output}")]
    Failed {
        /// The command, in a guest or on the host.
        command: String,
        /// Its exit status.
        status: String,
        /// Its output, standard error included.
        output: String,
    },
    /// A process that should have been running has ended.
    #[error("{name} ended ({status}) while {waiting_for}; the end of its output:\n{tail}")]
    Exited {
        /// The process's name.
        name: String,
        /// Its exit status.
        status: String,
        /// The awaited event.
        waiting_for: String,
        /// The end of its output.
        tail: String,
    },
    /// Something did not happen in time.
    #[error("{name}: not within {after:?}: {waiting_for}; the end of its output:\n{tail}")]
    Timeout {
        /// Name of the process waited for.
        name: String,
        /// The awaited event.
        waiting_for: String,
        /// Time waited.
        after: Duration,
        /// The end of the process's output.
        tail: String,
    },
    /// A part of this process could not continue.
    #[error("{action}: {source}")]
    Other {
        /// The attempted action.
        action: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Malformed data.
    #[error("{what}: {problem}")]
    Malformed {
        /// The data.
        what: String,
        /// The problem with it.
        problem: String,
    },
    /// A signal asked this program to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Adds the attempted action to an [`io::Error`].
    pub fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let action = action.into();
        move |source| Error::Io { action, source }
    }

    /// Adds the attempted action to an error of another kind, such as one of the vhost-user protocol.
    pub fn other<E: std::error::Error + Send + Sync + 'static>(action: impl Into<String>) -> impl FnOnce(E) -> Error {
        let action = action.into();
        move |source| Error::Other { action, source: Box::new(source) }
    }

    /// Returns the error of a program that could not be started.
    pub(crate) fn start(command: &Command, source: io::Error) -> Error {
        let tool = command.get_program().to_string_lossy().into_owned();
        if source.kind() == io::ErrorKind::NotFound {
            Error::MissingTool { tool }
        } else {
            Error::Io { action: format!("starting {tool}"), source }
        }
    }

    /// Formats a status for a message.
    pub(crate) fn status(status: ExitStatus) -> String {
        status.to_string()
    }

    /// Reports whether a signal caused it.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, Error::Interrupted)
    }

    /// Returns the error of malformed data.
    pub fn malformed(what: impl Into<String>, problem: impl Into<String>) -> Error {
        Error::Malformed { what: what.into(), problem: problem.into() }
    }
}

/// Runs a command to its end and returns its standard output.
pub fn output_of(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().map_err(|e| Error::start(command, e))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let mut said = output.stdout;
    said.extend_from_slice(&output.stderr);
    Err(Error::Failed {
        command: format!("{command:?}"),
        status: Error::status(output.status),
        output: String::from_utf8_lossy(&said).into_owned(),
    })
}
