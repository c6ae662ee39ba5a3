//! The channel to a controller that the switch connects to: it retries with growing pauses.

use super::agent::Agent;
use super::channel;
use crate::config::ListenAddress;
use crate::serve::{Stop, connect};
use std::time::{Duration, Instant};

/// First pause between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// Time limit of an attempt.
const PATIENCE: Duration = Duration::from_secs(5);

/// Keeps a channel to the controller at `address` until `stop`.
pub(super) fn seek(agent: &Agent<'_>, address: &ListenAddress, stop: &Stop) {
    let mut pause = FIRST_PAUSE;
    // Log the failure once, not at every attempt.
    let mut said = false;
    loop {
        match connect(address, Instant::now() + PATIENCE, stop) {
            Ok(connection) => {
                tracing::info!(controller = %address, "connected");
                said = false;
                if channel::converse(agent, &connection) {
                    pause = FIRST_PAUSE;
                }
                tracing::info!(controller = %address, "disconnected");
            }
            Err(error) if !said => {
                tracing::warn!(controller = %address, %error, "cannot connect, and goes on trying");
                said = true;
            }
            Err(_) => {}
        }
        if stop.sleep(pause) {
            return;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
