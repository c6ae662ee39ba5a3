//! Reasons for findings, which people give.

use serde::Deserialize;

/// A reason for findings.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// Words that the names of the findings have.
    pub finding: String,
    /// The reason.
    pub text: String,
}

impl Note {
    /// Reports whether it is about the finding of this name.
    pub fn is_of(&self, name: &str) -> bool {
        self.finding.split_whitespace().all(|word| name.split(' ').any(|other| other == word))
    }
}
