//! Client of Open vSwitch's control socket, which speaks JSON-RPC. `ovs-appctl` would do, but starting a program during a
//! measurement takes a processor away from it.

use serde::Deserialize;
use serde_json::{Deserializer, Value, json};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Time limit of an answer.
const LIMIT: Duration = Duration::from_secs(60);

/// An answer.
#[derive(Deserialize)]
struct Answer {
    result: Option<String>,
    error: Value,
}

/// Client of the control socket.
pub struct Control {
    socket: PathBuf,
}

impl Control {
    /// Creates a client of the socket that the switch was told to create.
    pub fn at(socket: PathBuf) -> Control {
        Control { socket }
    }

    /// Runs a command, and returns the output that `ovs-appctl` would print.
    pub fn call(&self, method: &str, params: &[&str]) -> io::Result<String> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(json!({ "id": 0, "method": method, "params": params }).to_string().as_bytes())?;
        // Only its last brace shows where an answer ends.
        let answer = Answer::deserialize(&mut Deserializer::from_reader(stream))?;
        answer.result.ok_or_else(|| io::Error::other(format!("{method}: {}", answer.error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixListener;

    fn answer(text: &'static str) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("ctl");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut asked = [0; 256];
            let len = stream.read(&mut asked).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            // The real server leaves the connection open, too.
            let _ = stream.read(&mut [0]);
            String::from_utf8_lossy(&asked[..len]).into_owned()
        });
        let outcome = Control::at(socket).call("version", &[]).map_err(|error| error.to_string());
        assert!(server.join().unwrap().contains("\"method\":\"version\""));
        outcome
    }

    #[test]
    fn answers_and_refusals_are_told_apart() {
        assert_eq!(answer(r#"{"id":0,"result":"3.1.0\n","error":null}"#).as_deref(), Ok("3.1.0\n"));
        let refusal = answer(r#"{"id":0,"result":null,"error":"\"version\" is not a valid command"}"#);
        assert!(refusal.is_err_and(|text| text.contains("not a valid command")));
    }
}
