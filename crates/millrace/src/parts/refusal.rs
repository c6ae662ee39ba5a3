//! Reasons why a call changes nothing, by codes that stay the same.

use super::Store;
use std::io;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal,)*) => {
        /// Reason of a refusal: a code of JSON-RPC, of those that are for servers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $($(#[doc = $doc])+ $name = $code,)*
        }

        impl Code {
            /// All codes, with what each means.
            pub const ALL: &[(Code, &str)] = &[$((Code::$name, concat!($($doc),+)),)*];
        }
    };
}

codes! {
    /// The switch could not do it; the message says why.
    Refused = -32000,
    /// The configuration file has this part: only a change of the file changes it.
    OwnedByFile = -32001,
    /// There is a part of this name, with other settings; the message names them.
    Differs = -32002,
    /// The settings are wrong, or do not fit the other parts.
    Invalid = -32003,
    /// Other parts need this one.
    InUse = -32004,
    /// There is no such part.
    Absent = -32005,
    /// The part could not be written to the directory that keeps it, or removed there.
    NotKept = -32006,
    /// The change would open a port again, which was not allowed.
    Reopens = -32007,
    /// The switch did not take the change, as a worker does not respond; nothing has changed.
    NotApplied = -32008,
}

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
