//! Answers to the lines of a client (JSON-RPC 2.0, sections 4 to 6).

use super::failure::{Failure, to_value};
use super::{Aggregation, Drops, Flows, Handler, Version, edit};
use serde_json::{Value, json};

/// A function that answers a method.
pub(super) enum Answer {
    /// It takes no parameters.
    Plain(fn(&dyn Handler) -> Result<Value, Failure>),
    /// It takes some.
    Asked(fn(Option<&Value>, &dyn Handler) -> Result<Value, Failure>),
}

/// Methods that `edit` does not have, what they are for, and what answers them.
pub(super) const PLAIN: [(&str, &str, Answer); 14] = [
    ("ports", "Returns the ports, without their counters.", Answer::Plain(|handler| to_value(handler.ports()))),
    ("stats", "Returns all counters.", Answer::Plain(|handler| to_value(handler.snapshot()))),
    (
        "workers",
        "Returns the workers: load, and time by step and stage.",
        Answer::Plain(|handler| to_value(handler.snapshot().workers)),
    ),
    ("mac", "Returns the MAC tables of the bridges.", Answer::Plain(|handler| to_value(handler.macs()))),
    ("drops", "Returns dropped frames, by port, stage and reason.", Answer::Plain(drops)),
    ("mappings", "Returns the mappings.", Answer::Plain(|handler| to_value(handler.snapshot().mappings))),
    ("exchange", "Returns the exchanges.", Answer::Plain(|handler| to_value(handler.snapshot().exchanges))),
    ("why", "Explains how frames get from a port (`port`) to its peers and back.", Answer::Asked(why)),
    ("aggregation", "Returns the counters and the table of aggregation.", Answer::Plain(aggregation)),
    ("flows", "Returns the flows that controllers have set.", Answer::Plain(flows)),
    (
        "confinement",
        "Returns the rights that the switch has given up.",
        Answer::Plain(|handler| to_value(handler.confinement())),
    ),
    ("reload", "Reads the configuration file again, and applies it.", Answer::Plain(reload)),
    ("shutdown", "Stops the switch.", Answer::Plain(shutdown)),
    ("version", "Returns the version of the switch.", Answer::Plain(version)),
];

/// Requests allowed in one batch: an answer can be far longer than its request.
const LONGEST_BATCH: usize = 32;

/// Answers one line; `None` if it holds notifications only, which section 4.1 leaves unanswered.
pub(super) fn answer(line: &[u8], handler: &dyn Handler) -> Option<String> {
    let message: Value = match serde_json::from_slice(line) {
        Ok(message) => message,
        Err(error) => {
            return Some(refusal(Failure::PARSE_ERROR, &format!("not JSON: {error}")));
        }
    };
    let reply = match message {
        Value::Array(batch) if batch.is_empty() => Some(failed(Value::Null, empty_batch())),
        Value::Array(batch) if batch.len() > LONGEST_BATCH => {
            let message = format!("{} requests in a batch; send at most {LONGEST_BATCH}", batch.len());
            Some(failed(Value::Null, Failure::new(Failure::INVALID_REQUEST, message)))
        }
        Value::Array(batch) => {
            let replies: Vec<Value> = batch.iter().filter_map(|request| call(request, handler)).collect();
            (!replies.is_empty()).then_some(Value::Array(replies))
        }
        request => call(&request, handler),
    };
    reply.map(|reply| reply.to_string())
}

/// Returns the answer to a line that is too long.
pub(super) fn too_long(limit: usize) -> String {
    refusal(Failure::INVALID_REQUEST, &format!("the line is longer than {limit} bytes"))
}

/// Returns the answer to a client beyond the connection limit.
pub(super) fn too_many(limit: usize) -> String {
    refusal(Failure::REFUSED, &format!("there are already {limit} connections; close one, or try again later"))
}

fn refusal(code: i64, message: &str) -> String {
    failed(Value::Null, Failure::new(code, message)).to_string()
}

fn empty_batch() -> Failure {
    Failure::new(Failure::INVALID_REQUEST, "the batch is empty")
}

fn failed(id: Value, failure: Failure) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": failure.code, "message": failure.message}})
}

fn call(request: &Value, handler: &dyn Handler) -> Option<Value> {
    let (id, outcome) = match check(request) {
        // Whether it was a notification is unknown: section 5 requires an answer with a null id.
        Err(failure) => (Some(Value::Null), Err(failure)),
        Ok((id, method, params)) => (id.cloned(), dispatch(method, params, handler)),
    };
    let id = id?;
    Some(match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(failure) => failed(id, failure),
    })
}

/// Returns id, method and parameters of a well-formed request.
fn check(request: &Value) -> Result<(Option<&Value>, &str, Option<&Value>), Failure> {
    let invalid = |message: &str| Err(Failure::new(Failure::INVALID_REQUEST, message));
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

fn dispatch(method: &str, params: Option<&Value>, handler: &dyn Handler) -> Result<Value, Failure> {
    if let Some(answer) = edit::answer(method, params, handler) {
        return answer;
    }
    let Some((_, _, answer)) = PLAIN.iter().find(|(name, ..)| *name == method) else {
        let plain = PLAIN.iter().map(|(name, ..)| *name);
        let known: Vec<_> = plain.chain(edit::METHODS.iter().map(|(name, _)| *name)).collect();
        let known = known.join(", ");
        let message = format!("there is no method `{method}`; known are {known}");
        return Err(Failure::new(Failure::METHOD_NOT_FOUND, message));
    };
    let is_empty = match params {
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        _ => true,
    };
    match answer {
        Answer::Plain(answer) if is_empty => answer(handler),
        Answer::Plain(_) => Err(Failure::new(Failure::INVALID_PARAMS, format!("`{method}` takes no parameters"))),
        Answer::Asked(answer) => answer(params, handler),
    }
}

fn drops(handler: &dyn Handler) -> Result<Value, Failure> {
    let ports = handler.snapshot().ports.into_iter().filter(|port| !port.stage_drops.is_empty());
    to_value(ports.map(|port| (port.name, port.stage_drops)).collect::<Drops>())
}

fn aggregation(handler: &dyn Handler) -> Result<Value, Failure> {
    to_value(Aggregation { stats: handler.snapshot().aggregation, table: handler.aggregation_flows() })
}

fn flows(handler: &dyn Handler) -> Result<Value, Failure> {
    to_value(Flows { datapath: handler.snapshot().datapath, flows: handler.flows() })
}

fn reload(handler: &dyn Handler) -> Result<Value, Failure> {
    match handler.reload() {
        Ok(report) => to_value(report),
        Err(message) => Err(Failure::new(Failure::REFUSED, message)),
    }
}

fn shutdown(handler: &dyn Handler) -> Result<Value, Failure> {
    handler.shutdown();
    Ok(Value::Null)
}

fn version(_: &dyn Handler) -> Result<Value, Failure> {
    to_value(Version { name: env!("CARGO_PKG_NAME").to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// Explains the port that the parameters name.
fn why(params: Option<&Value>, handler: &dyn Handler) -> Result<Value, Failure> {
    let port = params.and_then(|params| params["port"].as_str());
    let wanted = || Failure::new(Failure::INVALID_PARAMS, "`why` takes the name of a port, as {\"port\": \"a\"}");
    let port = port.ok_or_else(wanted)?;
    match handler.why(port) {
        Some(why) => to_value(why),
        None => {
            let ports: Vec<_> = handler.snapshot().ports.into_iter().map(|port| port.name).collect();
            let message = format!("there is no port `{port}`; known are {}", ports.join(", "));
            Err(Failure::new(Failure::INVALID_PARAMS, message))
        }
    }
}
