//! The host's end of the second serial line, over which a guest runs shell commands.
//!
//! The protocol consists of lines. The host writes `run ID BASE64` (a shell script) and `kill ID`; the guest writes `ready`
//! once it has booted, and `done ID STATUS BASE64` (the output, standard error included) when a script ends. Base64 separates the output of
//! commands from the protocol. Scripts run concurrently.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lab::{Error, Result};

/// A command running in a guest.
#[derive(Debug, PartialEq, Eq)]
pub struct Job {
    pub(super) id: u32,
    pub(super) command: String,
}

/// Result of a command in a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The exit status, as in the shell: 128 plus the signal's number after a signal.
    pub status: i32,
    /// Its output, standard error included; the first million bytes.
    pub output: String,
}

#[derive(Debug, Default)]
struct Answers {
    ready: bool,
    outcomes: HashMap<u32, Outcome>,
}

#[derive(Debug, Default)]
struct Shared {
    answers: Mutex<Answers>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Answers> {
        // Every update is a single assignment, so a thread that panicked left nothing half done.
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, line: &str) {
        let mut words = line.split(' ');
        match words.next() {
            Some("ready") => self.lock().ready = true,
            Some("done") => {
                let id = words.next().and_then(|word| word.parse().ok());
                let status = words.next().and_then(|word| word.parse().ok());
                let output = decode(words.next().unwrap_or_default());
                if let (Some(id), Some(status), Some(output)) = (id, status, output) {
                    let output = String::from_utf8_lossy(&output).into_owned();
                    self.lock().outcomes.insert(id, Outcome { status, output });
                }
            }
            // Noise, such as an echo before the line was raw. A lost answer shows as a timeout.
            _ => {}
        }
        self.changed.notify_all();
    }

    fn wait<T>(&self, patience: Duration, mut probe: impl FnMut(&mut Answers) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + patience;
        let mut answers = self.lock();
        loop {
            if let Some(result) = probe(&mut answers) {
                return Some(result);
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            answers = self.changed.wait_timeout(answers, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The connection to one guest's agent.
#[derive(Debug)]
pub(super) struct Agent {
    line: Mutex<(UnixStream, u32)>,
    shared: Arc<Shared>,
}

impl Agent {
    pub(super) fn new(line: UnixStream) -> Result<Self> {
        let from_guest = line.try_clone().map_err(Error::io("duplicating the agent's line"))?;
        let shared = Arc::new(Shared::default());
        let receiver = Arc::clone(&shared);
        // The thread ends when QEMU does.
        std::thread::spawn(move || {
            for line in BufReader::new(from_guest).split(b'\n') {
                let Ok(line) = line else { return };
                receiver.take(String::from_utf8_lossy(&line).trim_end_matches('\r'));
            }
        });
        Ok(Self { line: Mutex::new((line, 0)), shared })
    }

    pub(super) fn start(&self, command: &str) -> Result<Job> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.1 += 1;
        let id = line.1;
        let request = format!("run {id} {}\n", encode(command.as_bytes()));
        line.0.write_all(request.as_bytes()).map_err(Error::io("writing to the agent's line"))?;
        Ok(Job { id, command: command.to_owned() })
    }

    pub(super) fn kill(&self, job: &Job) -> Result<()> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let request = format!("kill {}\n", job.id);
        line.0.write_all(request.as_bytes()).map_err(Error::io("writing to the agent's line"))
    }

    pub(super) fn ready(&self, patience: Duration) -> Option<()> {
        self.shared.wait(patience, |answers| answers.ready.then_some(()))
    }

    /// Forgets that the guest was ready: it boots again.
    pub(super) fn forget(&self) {
        self.shared.lock().ready = false;
    }

    pub(super) fn outcome(&self, job: &Job, patience: Duration) -> Option<Outcome> {
        self.shared.wait(patience, |answers| answers.outcomes.remove(&job.id))
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes as base64 (RFC 4648, section 4).
fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().enumerate().fold(0, |bits, (i, &byte)| bits | u32::from(byte) << (16 - 8 * i));
        for i in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * i)) as usize & 63];
            text.push(if i <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let value = ALPHABET.iter().position(|&known| known == digit)?;
        bits = bits << 6 | value as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_survives_the_round_trip() {
        assert_eq!(encode(b"Ma"), "TWE=");
        assert_eq!(encode(b"Man"), "TWFu");
        for length in 0..70 {
            let bytes: Vec<u8> = (0..length).map(|i: u8| i.wrapping_mul(73)).collect();
            assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        }
        assert_eq!(decode("T*Fu"), None);
    }

    #[test]
    fn answers_find_their_jobs_in_any_order() {
        let (host, mut guest) = UnixStream::pair().unwrap();
        let agent = Agent::new(host).unwrap();
        let first = agent.start("echo 1").unwrap();
        let second = agent.start("echo 2").unwrap();
        guest.write_all(b"nonsense\r\nready\r\ndone 2 0 Mgo=\r\ndone 1 7\r\n").unwrap();
        let patience = Duration::from_secs(5);
        assert_eq!(agent.outcome(&first, patience), Some(Outcome { status: 7, output: String::new() }));
        assert_eq!(agent.outcome(&second, patience), Some(Outcome { status: 0, output: "2\n".into() }));
        assert!(agent.ready(patience).is_some());
        assert_eq!(agent.outcome(&second, Duration::ZERO), None);
    }
}
