//! The life of one channel.

use super::agent::{Agent, TICK};
use crate::serve::Connection;
use openflow::ConnectionId;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Silence after which a controller is pinged.
const ASK_AFTER: Duration = Duration::from_secs(15);
/// Silence after which a controller is considered gone.
const GONE_AFTER: Duration = Duration::from_secs(60);

/// Time for a controller to agree on a version: only so many can connect.
const GREETING: Duration = Duration::from_secs(10);

/// Time for a controller to read what is sent at once: an answer, or a piece of a long one. It is disconnected if it does not.
const WRITE: Duration = Duration::from_secs(5);

/// Serves one controller until it disconnects or breaks the protocol; reports whether a version was ever agreed on.
pub(super) fn converse(agent: &Agent<'_>, connection: &Connection) -> bool {
    match agent.connect() {
        Ok((id, notifier)) => {
            talk(agent, connection, id, &notifier);
            agent.disconnect(id)
        }
        Err(error) => {
            complain(agent, &format!("no eventfd: {error}"));
            false
        }
    }
}

/// Logs why a controller is disconnected.
fn complain(agent: &Agent<'_>, why: &str) {
    match agent.complaints.next() {
        Some(0) => tracing::warn!("a controller is disconnected: {why}"),
        Some(unsaid) => tracing::warn!("a controller is disconnected: {why}; so were {unsaid} others"),
        None => {}
    }
}

fn talk(agent: &Agent<'_>, connection: &Connection, id: ConnectionId, notifier: &OwnedFd) {
    let mut buffer = vec![0; 64 << 10];
    let mut open = true;
    let came = Instant::now();
    let (mut heard, mut asked) = (came, false);
    loop {
        // Clear the notifier before taking the output: later output rings again.
        let _ = rustix::io::read(notifier, &mut [0; 8]);
        let (output, more) = agent.output(id);
        match connection.write_all(&output, Instant::now() + WRITE) {
            Ok(()) if open => {}
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                return complain(agent, "it does not read what it is sent");
            }
            _ => return,
        }
        // Read no more requests from a controller before it has read its answers.
        if more {
            open = receive(agent, id, &[]);
            continue;
        }
        match connection.read_unless(&mut buffer, Instant::now() + TICK, notifier.as_fd()) {
            Ok(None) => {}
            Ok(Some(0)) => return,
            Ok(Some(len)) => {
                (heard, asked) = (Instant::now(), false);
                open = receive(agent, id, &buffer[..len]);
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => {}
            Err(_) => return,
        }
        if heard.elapsed() > GONE_AFTER {
            return;
        }
        if came.elapsed() > GREETING && !agent.is_ready(id) {
            return complain(agent, "it has not agreed on a version");
        }
        if !asked && heard.elapsed() > ASK_AFTER {
            agent.ping(id);
            asked = true;
        }
    }
}

/// Handles a controller's requests, completing those before each barrier first; reports whether the channel stays open.
fn receive(agent: &Agent<'_>, id: ConnectionId, mut bytes: &[u8]) -> bool {
    loop {
        match agent.act(|switch, now| switch.receive(id, bytes, now).map(|()| switch.is_left(id))) {
            Ok(true) => bytes = &[],
            Ok(false) => return true,
            Err(reason) => {
                complain(agent, &reason.to_string());
                return false;
            }
        }
    }
}
