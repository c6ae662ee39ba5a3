//! Errors by codes that stay the same.

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

impl Code {
    /// Returns the reason with this code, if there is one.
    pub fn of(code: i64) -> Option<Code> {
        Code::ALL.iter().map(|(reason, _)| *reason).find(|reason| *reason as i64 == code)
    }
}

/// A code of JSON-RPC itself (section 5.1): the message was not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The message was not a request.
pub const INVALID_REQUEST: i64 = -32600;
/// There is no such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The method does not take these parameters.
pub const INVALID_PARAMS: i64 = -32602;
/// The switch could not write its answer.
pub const INTERNAL_ERROR: i64 = -32603;
