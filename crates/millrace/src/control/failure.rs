//! Errors of JSON-RPC.

use crate::parts::Refusal;
use api::code;
use serde::Serialize;
use serde_json::Value;

/// A JSON-RPC error: its code (section 5.1) and message.
pub(super) struct Failure {
    pub(super) code: i64,
    pub(super) message: String,
}

impl Failure {
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
    serde_json::to_value(result).map_err(|error| Failure::new(code::INTERNAL_ERROR, error.to_string()))
}
