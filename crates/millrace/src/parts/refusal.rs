//! Reasons why a call changes nothing.

use super::Store;
use api::code::Code;
use std::io;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The reason.
    pub code: Code,
    /// The reason in words, and what to do.
    pub message: String,
}

impl Refusal {
    /// Returns a refusal.
    pub fn new(code: Code, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into() }
    }

    pub(super) fn invalid(problems: Vec<String>) -> Refusal {
        Refusal::new(Code::Invalid, problems.join("\n"))
    }

    pub(super) fn not_kept(store: &Store, error: &io::Error) -> Refusal {
        let place = store.path().display();
        let help = "the directory must exist, and be the switch's user's; `ports` of [control] names it";
        Refusal::new(Code::NotKept, format!("cannot write to {place}: {error}; {help}"))
    }
}
