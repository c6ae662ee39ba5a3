//! What can go wrong around a test, told so that the reader need not run it again.

use std::io;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the harness, or of something it runs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program is not on this machine.
    #[error("{tool} is not installed; install the packages of e2e::DEBIAN_PACKAGES")]
    MissingTool {
        /// The program's name.
        tool: String,
    },
    /// The operating system refused something.
    #[error("{action}: {source}")]
    Io {
        /// What was being done.
        action: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A command ran and reported failure.
    #[error("`{command}` failed ({status}); it said:\n{output}")]
    Failed {
        /// The command, in a guest or on the host.
        command: String,
        /// How it ended.
        status: String,
        /// Its output, standard error included.
        output: String,
    },
    /// A process that should have been running had ended.
    #[error("{name} ended ({status}) while {waiting_for}; the end of its output:\n{tail}")]
    Exited {
        /// The process's name.
        name: String,
        /// How it ended.
        status: String,
        /// What the harness was waiting for.
        waiting_for: String,
        /// The end of its output.
        tail: String,
    },
    /// Something did not happen in time.
    #[error("{name}: not within {after:?}: {waiting_for}; the end of its output:\n{tail}")]
    Timeout {
        /// The name of the process that was waited for.
        name: String,
        /// What the harness was waiting for.
        waiting_for: String,
        /// How long it waited.
        after: Duration,
        /// The end of the process's output.
        tail: String,
    },
    /// A guest of this process could not go on.
    #[error("{action}: {source}")]
    Driver {
        /// What was being done.
        action: String,
        /// Why it failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Data did not have the form it should have.
    #[error("{what}: {problem}")]
    Malformed {
        /// The data.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    /// Makes an [`io::Error`] say what was being done.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let action = action.into();
        move |source| Error::Io { action, source }
    }

    /// Makes an error of the ring or the vhost-user protocol say what was being done.
    pub(crate) fn driver<E: std::error::Error + Send + Sync + 'static>(
        action: impl Into<String>,
    ) -> impl FnOnce(E) -> Error {
        let action = action.into();
        move |source| Error::Driver { action, source: Box::new(source) }
    }

    /// The error of a program that could not be started.
    pub(crate) fn start(command: &Command, source: io::Error) -> Error {
        let tool = command.get_program().to_string_lossy().into_owned();
        if source.kind() == io::ErrorKind::NotFound {
            Error::MissingTool { tool }
        } else {
            Error::Io { action: format!("starting {tool}"), source }
        }
    }

    /// How a status reads in a message.
    pub(crate) fn status(status: ExitStatus) -> String {
        status.to_string()
    }

    pub(crate) fn malformed(what: impl Into<String>, problem: impl Into<String>) -> Error {
        Error::Malformed { what: what.into(), problem: problem.into() }
    }
}

/// Runs a command to its end and returns what it wrote to its standard output.
pub(crate) fn output_of(command: &mut Command) -> Result<Vec<u8>> {
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
