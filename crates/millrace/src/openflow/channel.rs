//! One channel, from its beginning to its end.

use super::TICK;
use super::agent::Agent;
use crate::serve::Connection;
use openflow::ConnectionId;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Silence after which a controller is asked for a sign of life, and after which it is taken to be gone.
const ASK_AFTER: Duration = Duration::from_secs(15);
/// See above.
const GONE_AFTER: Duration = Duration::from_secs(60);

/// Time that a controller has to read what it is sent at once: an answer, or a piece of a long one. It is gone if it does not.
const WRITE: Duration = Duration::from_secs(5);

/// Serves one controller until it goes, or does what it must not; whether it was one at all.
pub(super) fn converse(agent: &Agent<'_>, connection: &Connection) -> bool {
    match agent.connect() {
        Ok((id, bell)) => {
            talk(agent, connection, id, &bell);
            agent.disconnect(id)
        }
        Err(error) => {
            tracing::warn!(%error, "a controller is disconnected: no eventfd");
            false
        }
    }
}

fn talk(agent: &Agent<'_>, connection: &Connection, id: ConnectionId, bell: &OwnedFd) {
    let mut buffer = vec![0; 64 << 10];
    let mut open = true;
    let (mut heard, mut asked) = (Instant::now(), false);
    loop {
        // Before the output is taken: what comes later rings again.
        let _ = rustix::io::read(bell, &mut [0; 8]);
        let (output, more) = agent.output(id);
        match connection.write_all(&output, Instant::now() + WRITE) {
            Ok(()) if open => {}
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                tracing::warn!("a controller is disconnected: it does not read what it is sent");
                return;
            }
            _ => return,
        }
        // Who has not read its answers is not asked for more requests.
        if more {
            open = receive(agent, id, &[]);
            continue;
        }
        match connection.read_unless(&mut buffer, Instant::now() + TICK, bell.as_fd()) {
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
        if !asked && heard.elapsed() > ASK_AFTER {
            agent.ping(id);
            asked = true;
        }
    }
}

/// Does what a controller asks for, up to each barrier before what follows it; whether the channel stays open.
fn receive(agent: &Agent<'_>, id: ConnectionId, mut bytes: &[u8]) -> bool {
    loop {
        match agent.act(|switch, now| switch.receive(id, bytes, now).map(|()| switch.is_left(id))) {
            Ok(true) => bytes = &[],
            Ok(false) => return true,
            Err(reason) => {
                tracing::warn!(%reason, "a controller is disconnected");
                return false;
            }
        }
    }
}
