//! Calls.

use crate::lines::Lines;
use crate::{ClientError, Events};
use api::request::{EventsFollow, PortGet, Request};
use serde_json::{Map, Value, json};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Time limit of an answer. A reload, which closes and opens ports, takes longest.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval at which the switch is asked whether a port is open.
const INTERVAL: Duration = Duration::from_millis(5);

/// A connection to a switch, which the switch closes after a minute without a call.
#[derive(Debug)]
pub struct Client {
    lines: Lines,
    last_id: u64,
}

impl Client {
    /// Connects to the control socket at `path`. Each call is given a minute.
    ///
    /// # Errors
    ///
    /// No switch listens there.
    pub fn connect(path: impl AsRef<Path>) -> Result<Self, ClientError> {
        let path = path.as_ref();
        let stream =
            UnixStream::connect(path).map_err(|source| ClientError::Connect { path: path.to_owned(), source })?;
        let lines = Lines::new(stream);
        lines.limit(Some(PATIENCE))?;
        Ok(Self { lines, last_id: 0 })
    }

    /// Gives each further call this time. A call that takes longer fails, and the connection is of no more use.
    ///
    /// # Errors
    ///
    /// The time is zero.
    pub fn set_patience(&mut self, time: Duration) -> Result<(), ClientError> {
        Ok(self.lines.limit(Some(time))?)
    }

    /// Does a call, and returns its result.
    ///
    /// # Errors
    ///
    /// The switch refuses it, does not answer, or answers with something else.
    pub fn call<R: Request>(&mut self, request: &R) -> Result<R::Answer, ClientError> {
        let answer = self.ask(request)?;
        serde_json::from_value(answer).map_err(|error| ClientError::Unintelligible(error.to_string()))
    }

    /// Does a call, and returns its result as the switch wrote it.
    ///
    /// # Errors
    ///
    /// The switch refuses it, does not answer, or answers with something else.
    pub fn ask<R: Request>(&mut self, request: &R) -> Result<Value, ClientError> {
        self.ask_by_name(R::METHOD, &json!(request))
    }

    /// Does a call by the name of its method, with an object of parameters, and returns its result as the switch wrote it.
    ///
    /// # Errors
    ///
    /// The switch refuses it, does not answer, or answers with something else.
    pub fn ask_by_name(&mut self, method: &str, params: &Value) -> Result<Value, ClientError> {
        self.last_id += 1;
        self.lines.send(&json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}))?;
        let mut reply = self.lines.next()?;
        if let Some(error) = reply.get("error") {
            let message = error["message"].as_str().unwrap_or("no reason given").to_owned();
            return Err(ClientError::Refused { code: error["code"].as_i64().unwrap_or_default(), message });
        }
        if reply["id"] != self.last_id {
            return Err(ClientError::Unintelligible(format!("its id is {}, not {}", reply["id"], self.last_id)));
        }
        match reply.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(ClientError::Unintelligible("it has neither result nor error".to_owned())),
        }
    }

    /// Waits until peers can connect to a port, or one is connected.
    ///
    /// # Errors
    ///
    /// A call fails, or the port is not open after this time.
    pub fn wait_until_open(&mut self, port: &str, time: Duration) -> Result<(), ClientError> {
        let end = Instant::now() + time;
        loop {
            let state = self.call(&PortGet { name: port.to_owned() })?;
            if state.as_ref().is_some_and(|state| state.open) {
                return Ok(());
            }
            if Instant::now() >= end {
                let why = state.map_or_else(|| "it was removed meanwhile".to_owned(), |state| state.detail);
                return Err(ClientError::NotOpen { port: port.to_owned(), why });
            }
            thread::sleep(INTERVAL);
        }
    }

    /// Follows the events: the connection has no other use any more.
    ///
    /// # Errors
    ///
    /// The switch refuses it, does not answer, or answers with something else.
    pub fn follow(mut self, request: &EventsFollow) -> Result<Events, ClientError> {
        let following = self.call(request)?;
        Events::new(self.lines, request.since.unwrap_or(following.seq))
    }
}

/// Returns the keys of a section, for the calls that add and set parts.
pub fn keys<K: Into<String>, V: Into<Value>>(keys: impl IntoIterator<Item = (K, V)>) -> Map<String, Value> {
    keys.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::code::Code;
    use api::request::{PortDel, Version};
    use std::io::{BufRead, BufReader, Write};

    /// Does a call of a switch that answers with this line, and returns the outcome and what the switch was asked.
    fn answered<R: Request>(request: &R, answer: &str) -> (Result<R::Answer, ClientError>, Value) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(format!("{answer}\n").as_bytes()).unwrap();
        let outcome = Client { lines: Lines::new(ours), last_id: 6 }.call(request);
        let mut asked = String::new();
        BufReader::new(theirs).read_line(&mut asked).unwrap();
        (outcome, serde_json::from_str(&asked).unwrap())
    }

    #[test]
    fn a_call_is_a_request_of_json_rpc() {
        let answer = r#"{"jsonrpc": "2.0", "id": 7, "result": {"name": "millrace", "version": "1", "mood": "good"}}"#;
        let (outcome, asked) = answered(&Version {}, answer);
        assert_eq!(outcome.unwrap().version, "1");
        assert_eq!(asked, json!({"jsonrpc": "2.0", "id": 7, "method": "version", "params": {}}));
        let (_, asked) = answered(&PortDel { name: "a".into() }, answer);
        assert_eq!((&asked["method"], &asked["params"]), (&json!("port.del"), &json!({"name": "a"})));
    }

    #[test]
    fn refusals_have_codes_and_nonsense_is_named() {
        let refused = r#"{"jsonrpc": "2.0", "id": 7, "error": {"code": -32004, "message": "a needs it"}}"#;
        let error = answered(&Version {}, refused).0.unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (Some(Code::InUse), "the switch refused: a needs it"));
        let answers = [
            r#"{"jsonrpc": "2.0", "id": 1, "result": {"name": "", "version": ""}}"#,
            r#"{"jsonrpc": "2.0", "id": 7}"#,
            r#"{"jsonrpc": "2.0", "id": 7, "result": 1}"#,
            "HTTP/1.1 400 Bad Request",
        ];
        for answer in answers {
            let error = answered(&Version {}, answer).0.unwrap_err();
            assert!(matches!(error, ClientError::Unintelligible(_)) && error.code().is_none(), "{answer}: {error}");
        }
    }

    #[test]
    fn a_missing_switch_is_named() {
        let error = Client::connect("/nonexistent/c.sock").unwrap_err();
        assert!(error.to_string().starts_with("no switch answers on /nonexistent/c.sock: "), "{error}");
    }
}
