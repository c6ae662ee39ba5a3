//! The directory of a Millrace.

use super::{Millrace, program};
use crate::plugin;
use lab::millrace::config::Configuration;
use lab::millrace::{Files, Start};
use lab::netns::Namespace;
use std::path::PathBuf;
use tempfile::TempDir;

/// Directory of a Millrace; it outlives the process, so that a new one finds the files of the old one.
pub struct Home {
    directory: TempDir,
    variables: Vec<(&'static str, &'static str)>,
}

impl Default for Home {
    fn default() -> Home {
        Home::new()
    }
}

impl Home {
    /// Creates it.
    pub fn new() -> Home {
        let directory = tempfile::Builder::new().prefix("e2e-millrace-").tempdir().unwrap();
        Home { directory, variables: Vec::new() }
    }

    /// Gives Millrace a variable of the environment.
    pub fn with_variable(mut self, name: &'static str, value: &'static str) -> Home {
        self.variables.push((name, value));
        self
    }

    /// Returns the path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the frames of a capture, sorted.
    pub fn frames(&self, name: &str) -> Vec<Vec<u8>> {
        let file = capture::Reader::open(&self.path(name)).unwrap();
        let mut frames: Vec<_> = file.map(|frame| frame.unwrap().bytes).collect();
        frames.sort();
        frames
    }

    /// Returns the socket of a port.
    pub fn socket(&self, port: &str) -> PathBuf {
        self.path(&format!("{port}.sock"))
    }

    fn files(&self) -> Files {
        Files { configuration: self.path("m.toml"), control: self.path("control") }
    }

    /// Writes the configuration, with the control socket added; returns its path.
    pub fn configure(&self, configuration: impl Configuration) -> PathBuf {
        let files = self.files();
        files.configure(configuration).unwrap();
        files.configuration
    }

    /// Starts Millrace with this configuration and waits until it answers.
    pub fn start(&self, configuration: impl Configuration) -> Millrace {
        self.launch(Start::new(program()), configuration)
    }

    /// Does the same inside a network namespace.
    pub fn start_inside(&self, namespace: &Namespace, configuration: impl Configuration) -> Millrace {
        self.launch(Start::new(program()).inside(namespace), configuration)
    }

    fn launch(&self, start: Start, configuration: impl Configuration) -> Millrace {
        let text = configuration.text();
        self.configure(&text);
        // Thread timing decides how many arenas the C library's allocator makes and how many stacks of ended threads it
        // keeps. Each adds mappings, like a leak.
        let start = start.env("MALLOC_ARENA_MAX", "1").env("GLIBC_TUNABLES", "glibc.pthread.stack_cache_size=0");
        let start = if text.contains("[dpdk]") {
            start.env("MILLRACE_DPDK_PLUGIN", &plugin::of_millrace().display().to_string())
        } else {
            start
        };
        let start = self.variables.iter().fold(start, |start, (name, value)| start.env(name, value));
        Millrace::of(start.start(self.files()).unwrap_or_else(|error| panic!("{error}")))
    }
}
