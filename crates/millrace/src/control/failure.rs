//! Errors of JSON-RPC.

use crate::parts::Refusal;
use serde::Serialize;
use serde_json::Value;

/// A JSON-RPC error: its code (section 5.1) and message.
pub(super) struct Failure {
    pub(super) code: i64,
    pub(super) message: String,
}

impl Failure {
    pub(super) const PARSE_ERROR: i64 = -32700;
    pub(super) const INVALID_REQUEST: i64 = -32600;
    pub(super) const METHOD_NOT_FOUND: i64 = -32601;
    pub(super) const INVALID_PARAMS: i64 = -32602;
    pub(super) const INTERNAL_ERROR: i64 = -32603;
    /// First of the codes reserved for servers: the request was valid, but the switch could not do it.
    pub(super) const REFUSED: i64 = -32000;

    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<Refusal> for Failure {
    fn from(Refusal { code, message }: Refusal) -> Failure {
        Failure::new(code as i64, message)
    }
}

/// Returns a result as JSON.
pub(super) fn to_value(result: impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(result).map_err(|error| Failure::new(Failure::INTERNAL_ERROR, error.to_string()))
}
