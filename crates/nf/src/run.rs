//! The loop around a network function.

use crate::port::{OpenError, Ports, WaitError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Rounds between two looks at the clock, whether the devices are still there.
const CHECK_ROUNDS: u32 = 4096;
/// Rounds without a frame before going to sleep: waking up costs more than a few vain looks.
const PATIENCE: u32 = 64;
/// Longest sleep: how late a device that went away, or a request to stop, may be noticed.
const SLEEP: Duration = Duration::from_millis(100);

/// What to do when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Look again at once: lowest latency, and a whole processor.
    Poll,
    /// Sleep until the device notifies.
    Sleep,
}

/// Why a network function ended.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[allow(missing_docs)] // The messages say it.
pub enum RunError {
    Ports(#[from] OpenError),
    Wait(#[from] WaitError),
}

/// Calls `round` over and over until `stop` is set. It returns how many frames it received, from all ports together.
/// Links that are lost are established again, if [`crate::Options::reconnect`] says so.
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
            // Then look once, and sleep again.
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
