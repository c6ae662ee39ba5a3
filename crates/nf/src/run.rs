//! The loop around a network function.

use crate::port::{OpenError, Port, Ports, WaitError, wait, wait_beside};
use std::os::fd::BorrowedFd;
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
    /// Sleep until the device notifies, once some rounds were without a frame.
    Sleep,
    /// The same at the first round without a frame, for a function that shares its processor with the switch: while it polls,
    /// the switch has no time to send.
    SleepAtOnce,
}

impl Idle {
    /// Reports whether it is time to rest after `vain` rounds without work, one after the other; `patience` is how many of them a
    /// thread with a processor of its own polls for.
    #[inline(always)]
    pub(crate) fn is_due(self, vain: u32, patience: u32) -> bool {
        match self {
            Idle::Poll => false,
            Idle::Sleep => vain >= patience,
            Idle::SleepAtOnce => true,
        }
    }
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
    let mut rounds = Rounds::new(idle);
    while !stop.load(Ordering::Relaxed) {
        let received = round(ports);
        if rounds.end(ports, received)? {
            ports.check(stop)?;
        }
    }
    Ok(())
}

/// A network function that waits for more than frames.
pub trait Work {
    /// Does all pending work; returns 0 if there was none.
    fn round(&mut self, ports: &mut Ports) -> usize;

    /// Returns a file that is readable when there is something to do besides frames.
    fn watched(&self) -> BorrowedFd<'_>;

    /// Returns how long there is nothing to do, unless a frame comes or the file becomes readable.
    fn patience(&mut self) -> Duration;
}

/// Does the same as [`run()`] for a function that waits for more than frames.
pub fn run_work(ports: &mut Ports, idle: Idle, stop: &AtomicBool, work: &mut impl Work) -> Result<(), RunError> {
    let mut rounds = Rounds::new(idle);
    while !stop.load(Ordering::Relaxed) {
        let done = work.round(ports);
        let is_time = rounds.end_by(done, || {
            let patience = work.patience().min(SLEEP);
            wait_beside(ports, work.watched(), patience)
        })?;
        if is_time {
            ports.check(stop)?;
        }
    }
    Ok(())
}

/// The rest between two rounds, and the time of checking the devices.
pub(crate) struct Rounds {
    idle: Idle,
    since_check: u32,
    /// Rounds without a frame, one after the other.
    vain: u32,
}

impl Rounds {
    pub(crate) fn new(idle: Idle) -> Rounds {
        Rounds { idle, since_check: 0, vain: 0 }
    }

    /// Ends a round in which `received` frames came. Rests if there were none, and reports whether it is time to check the
    /// devices.
    #[inline]
    pub(crate) fn end(&mut self, ports: &mut [Port], received: usize) -> Result<bool, WaitError> {
        self.end_by(received, || wait(ports, SLEEP))
    }

    /// Does the same with another way to sleep.
    #[inline]
    fn end_by(&mut self, received: usize, sleep: impl FnOnce() -> Result<(), WaitError>) -> Result<bool, WaitError> {
        self.since_check += 1;
        if received > 0 {
            self.vain = 0;
        } else if self.idle.is_due(self.vain, PATIENCE) {
            sleep()?;
            // Check the devices, then poll once before the next sleep.
            self.since_check = CHECK_ROUNDS;
        } else {
            self.vain = self.vain.saturating_add(1);
            std::hint::spin_loop();
        }
        let is_time = self.since_check >= CHECK_ROUNDS;
        if is_time {
            self.since_check = 0;
        }
        Ok(is_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the vain rounds before the first sleep, among the first thousand.
    fn vain_rounds(idle: Idle) -> Option<usize> {
        let mut rounds = Rounds::new(idle);
        rounds.end_by(1, || panic!("frames came")).unwrap();
        (0..1000).find(|_| {
            let mut slept = false;
            let sleep = || {
                slept = true;
                Ok(())
            };
            rounds.end_by(0, sleep).unwrap();
            slept
        })
    }

    #[test]
    fn patience_before_sleep() {
        assert_eq!(vain_rounds(Idle::Poll), None);
        assert_eq!(vain_rounds(Idle::Sleep), Some(PATIENCE as usize));
        assert_eq!(vain_rounds(Idle::SleepAtOnce), Some(0));
    }

    #[test]
    fn devices_are_looked_at_after_each_sleep() {
        let mut rounds = Rounds::new(Idle::SleepAtOnce);
        assert!(rounds.end_by(0, || Ok(())).unwrap());
        assert!(!rounds.end_by(1, || Ok(())).unwrap());
    }
}
