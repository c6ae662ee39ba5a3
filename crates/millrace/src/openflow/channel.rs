//! One channel, from its beginning to its end.

use super::TICK;
use super::agent::Agent;
use crate::serve::Connection;
use openflow::{Closed, ConnectionId};
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Silence after which a controller is asked for a sign of life, and after which it is taken to be gone.
const ASK_AFTER: Duration = Duration::from_secs(15);
/// See above.
const GONE_AFTER: Duration = Duration::from_secs(60);

/// Time that a controller has to read an answer.
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
        if connection.write_all(&agent.output(id), Instant::now() + WRITE).is_err() || !open {
            return;
        }
        match connection.read_unless(&mut buffer, Instant::now() + TICK, bell.as_fd()) {
            Ok(None) => {}
            Ok(Some(0)) => return,
            Ok(Some(len)) => {
                (heard, asked) = (Instant::now(), false);
                if let Err(reason) = receive(agent, id, &buffer[..len]) {
                    tracing::warn!(%reason, "a controller is disconnected");
                    open = false;
                }
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

/// Does what a controller asks for, up to each barrier before what follows it.
fn receive(agent: &Agent<'_>, id: ConnectionId, mut bytes: &[u8]) -> Result<(), Closed> {
    loop {
        let left = agent.act(|switch, now| switch.receive(id, bytes, now).map(|()| switch.is_left(id)))?;
        if !left {
            return Ok(());
        }
        bytes = &[];
    }
}
