//! An exchange of frames that goes on by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Exchange, Tally};
use lab::{Error, Result};

/// Pause after each step: others get the processors meanwhile.
const PACE: Duration = Duration::from_micros(500);

/// Silence after which no more frames are expected. It is waited out only when frames are lost.
const LAST: Duration = Duration::from_secs(5);

/// An exchange on a separate thread, of a burst at a time, until it is stopped.
pub struct Pump {
    stop: Arc<AtomicBool>,
    received: Arc<[AtomicU64; 2]>,
    thread: Option<JoinHandle<Result<Tally>>>,
}

impl Pump {
    /// Starts the exchange.
    pub fn start(mut exchange: Exchange) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let received: Arc<[AtomicU64; 2]> = Arc::default();
        let (stopping, counters) = (stop.clone(), received.clone());
        let thread = std::thread::spawn(move || {
            while !stopping.load(Ordering::Relaxed) {
                exchange.step(u64::MAX)?;
                std::thread::sleep(PACE);
                let tally = exchange.tally();
                counters.iter().zip(tally.received).for_each(|(c, n)| c.store(n, Ordering::Relaxed));
            }
            exchange.drain(LAST)
        });
        Self { stop, received, thread: Some(thread) }
    }

    /// Returns the number of frames received so far, each way.
    pub fn received(&self) -> [u64; 2] {
        self.received.each_ref().map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Waits until `frames` more have arrived each way.
    pub fn wait_for(&self, frames: u64, timeout: Duration) -> Result<()> {
        let before = self.received();
        let deadline = Instant::now() + timeout;
        loop {
            let now = self.received();
            if before.iter().zip(now).all(|(before, now)| now >= before + frames) {
                return Ok(());
            }
            let ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
            if ended || Instant::now() > deadline {
                let problem = format!("{frames} more frames each way did not arrive: from {before:?} to {now:?}");
                return Err(Error::malformed("the pump", problem));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops sending, receives the frames in flight, and returns the tally or the error.
    pub fn stop(mut self) -> Result<Tally> {
        self.stop.store(true, Ordering::Relaxed);
        let panicked = || Error::malformed("the pump", "its thread panicked");
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            _ => Err(panicked()),
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The test failed already, or it would have stopped the pump.
            let _ = thread.join();
        }
    }
}
