//! Error of a task.

use std::fmt;

/// Error of a task, in words for its user.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    /// Joins failures of things that were done side by side.
    pub fn of_all(outcomes: impl IntoIterator<Item = Result<(), Failure>>) -> Result<(), Failure> {
        let words: Vec<String> = outcomes.into_iter().filter_map(|done| Some(done.err()?.0)).collect();
        if words.is_empty() { Ok(()) } else { Err(Failure(words.join("; "))) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Failure {
    fn from(words: String) -> Failure {
        Failure(words)
    }
}

impl From<&str> for Failure {
    fn from(words: &str) -> Failure {
        Failure(words.to_owned())
    }
}
