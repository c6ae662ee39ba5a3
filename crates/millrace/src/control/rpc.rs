//! Answers to the lines of a client (JSON-RPC 2.0, sections 4 to 6).

use super::failure::Failure;
use super::methods::{Caller, METHODS, Method};
use api::code::{self, Code};
use api::event::Event;
use api::request::EVENT;
use serde_json::{Value, json};

/// Requests allowed in one batch: an answer can be far longer than its request.
const LONGEST_BATCH: usize = 32;

/// Answers one line; `None` if it holds notifications only, which section 4.1 leaves unanswered.
pub(super) fn answer(line: &[u8], caller: &mut Caller<'_>) -> Option<String> {
    let message: Value = match serde_json::from_slice(line) {
        Ok(message) => message,
        Err(error) => {
            return Some(refusal(code::PARSE_ERROR, &format!("not JSON: {error}")));
        }
    };
    let reply = match message {
        Value::Array(batch) if batch.is_empty() => Some(failed(Value::Null, empty_batch())),
        Value::Array(batch) if batch.len() > LONGEST_BATCH => {
            let message = format!("{} requests in a batch; send at most {LONGEST_BATCH}", batch.len());
            Some(failed(Value::Null, Failure::new(code::INVALID_REQUEST, message)))
        }
        Value::Array(batch) => {
            let replies: Vec<Value> = batch.iter().filter_map(|request| call(request, caller)).collect();
            (!replies.is_empty()).then_some(Value::Array(replies))
        }
        request => call(&request, caller),
    };
    reply.map(|reply| reply.to_string())
}

/// Returns the notifications of these events, a line each.
pub(super) fn notifications(events: &[Event]) -> String {
    let notification = |event| format!("{}\n", json!({"jsonrpc": "2.0", "method": EVENT, "params": event}));
    events.iter().map(notification).collect()
}

/// Returns the answer to a line that is too long.
pub(super) fn too_long(limit: usize) -> String {
    refusal(code::INVALID_REQUEST, &format!("the line is longer than {limit} bytes"))
}

/// Returns the answer to a client beyond the connection limit.
pub(super) fn too_many(limit: usize) -> String {
    refusal(Code::Refused as i64, &format!("there are already {limit} connections; close one, or try again later"))
}

fn refusal(code: i64, message: &str) -> String {
    failed(Value::Null, Failure::new(code, message)).to_string()
}

fn empty_batch() -> Failure {
    Failure::new(code::INVALID_REQUEST, "the batch is empty")
}

fn failed(id: Value, failure: Failure) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": failure.code, "message": failure.message}})
}

fn call(request: &Value, caller: &mut Caller<'_>) -> Option<Value> {
    let (id, outcome) = match check(request) {
        // Whether it was a notification is unknown: section 5 requires an answer with a null id.
        Err(failure) => (Some(Value::Null), Err(failure)),
        Ok((id, method, params)) => (id.cloned(), dispatch(method, params, caller)),
    };
    let id = id?;
    Some(match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(failure) => failed(id, failure),
    })
}

/// Returns id, method and parameters of a well-formed request.
fn check(request: &Value) -> Result<(Option<&Value>, &str, Option<&Value>), Failure> {
    let invalid = |message: &str| Err(Failure::new(code::INVALID_REQUEST, message));
    let Some(request) = request.as_object() else {
        return invalid("a request is an object");
    };
    if request.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid("`jsonrpc` must be \"2.0\"");
    }
    let Some(method) = request.get("method").and_then(Value::as_str) else {
        return invalid("`method` must be a string");
    };
    let id = request.get("id");
    if !matches!(id, None | Some(Value::Null | Value::String(_) | Value::Number(_))) {
        return invalid("`id` must be a string, a number or null");
    }
    let params = request.get("params");
    if !matches!(params, None | Some(Value::Array(_) | Value::Object(_))) {
        return invalid("`params` must be an array or an object");
    }
    Ok((id, method, params))
}

fn dispatch(method: &str, params: Option<&Value>, caller: &mut Caller<'_>) -> Result<Value, Failure> {
    let method = Method::find(method).ok_or_else(|| {
        let known: Vec<_> = METHODS.iter().map(|method| method.name).collect();
        let message = format!("there is no method `{method}`; known are {}", known.join(", "));
        Failure::new(code::METHOD_NOT_FOUND, message)
    })?;
    method.answer(params, caller)
}
