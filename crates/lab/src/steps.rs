//! The commands that set a switch up.

use crate::Result;
use crate::netns::Namespace;
use crate::process;

/// Commands that set a switch up, as a reader could type them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(Vec<String>);

impl Steps {
    /// Runs a command in a namespace to its end; returns its standard output.
    pub(crate) fn run(&mut self, namespace: &Namespace, words: &[&str]) -> Result<String> {
        self.add(process::line(words[0], &words[1..]));
        namespace.run(words[0], &words[1..])
    }

    /// Adds the line of a step that is done in another way.
    pub(crate) fn add(&mut self, line: impl Into<String>) {
        self.0.push(line.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.clone()
    }
}
