//! Starting Millrace.

use super::{Files, Millrace, SOON};
use crate::Result;
use crate::netns::Namespace;
use crate::process::Launch;
use api::request::Version;
use client::Client;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options for starting Millrace.
#[derive(Debug)]
pub struct Start {
    program: PathBuf,
    command: Command,
    launch: Launch,
    arguments: Vec<String>,
}

impl Start {
    /// Creates options for starting this program.
    pub fn new(program: &Path) -> Start {
        Start {
            program: program.to_owned(),
            command: Command::new(program),
            launch: Launch::new("Millrace"),
            arguments: Vec::new(),
        }
    }

    /// Starts it in a network namespace.
    pub fn inside(self, namespace: &Namespace) -> Start {
        let command = namespace.command(&self.program);
        self.by(command)
    }

    /// Starts it by this command, which runs the program with the arguments that it gets.
    pub fn by(self, command: Command) -> Start {
        Start { command, ..self }
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Start {
        self.command.env(name, value);
        self
    }

    /// Starts it with these options.
    pub fn launch(self, launch: Launch) -> Start {
        Start { launch, ..self }
    }

    /// Adds arguments to those of `millrace run`.
    pub fn arguments(mut self, arguments: &[&str]) -> Start {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// Starts it with the configuration that its files have, and waits until it answers.
    pub fn start(self, files: Files) -> Result<Millrace> {
        let Start { program, mut command, launch, arguments } = self;
        command.arg("run").args(arguments).arg("--config").arg(&files.configuration);
        let mut daemon = launch.spawn(command)?;
        // All threads run once it answers; the socket is there long before.
        let answers = || Client::connect(&files.control).and_then(|mut client| client.call(&Version {})).ok();
        daemon.wait_for("its control socket", SOON, answers)?;
        Ok(Millrace { daemon, program, files })
    }
}
