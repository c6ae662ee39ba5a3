//! The loop around a network function.

use crate::port::{OpenError, Ports, WaitError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Rounds between two calls of [`Ports::check`].
const CHECK_ROUNDS: u32 = 4096;
/// Rounds without a frame before going to sleep: waking up costs more than a few empty rounds.
const PATIENCE: u32 = 64;
/// Longest sleep, and so the longest delay in noticing a disconnected device or a request to stop.
const SLEEP: Duration = Duration::from_millis(100);

/// The behaviour when idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Poll without a pause: lowest latency, at the cost of a whole processor.
    Poll,
    /// Sleep until the device notifies.
    Sleep,
}

/// The reason why a network function failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[allow(missing_docs)] // The messages say it.
pub enum RunError {
    Ports(#[from] OpenError),
    Wait(#[from] WaitError),
}

/// Calls `round` repeatedly until `stop` is set. `round` returns the number of frames it received from all ports.
/// Reconnects lost links if [`crate::Options::reconnect`] is set.
pub fn run(
    ports: &mut Ports,
    idle: Idle,
    stop: &AtomicBool,
    mut round: impl FnMut(&mut Ports) -> usize,
) -> Result<(), RunError> {
    let (mut rounds, mut vain) = (0u32, 0u32);
    while !stop.load(Ordering::Relaxed) {
        rounds += 1;
        if round(ports) > 0 {
            vain = 0;
        } else if idle == Idle::Sleep && vain >= PATIENCE {
            ports.wait(SLEEP)?;
            // Check the devices, then poll once before the next sleep.
            rounds = CHECK_ROUNDS;
        } else {
            vain = vain.saturating_add(1);
            std::hint::spin_loop();
        }
        if rounds >= CHECK_ROUNDS {
            rounds = 0;
            ports.check(stop)?;
        }
    }
    Ok(())
}
