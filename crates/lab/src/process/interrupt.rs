//! Ctrl-C. Every wait of a measurement checks for it, so that everything started ends with its owner.

use crate::{Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest time until a signal is noticed.
const TICK: Duration = Duration::from_millis(20);

/// Flag set by signals.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs handlers: signals that would end this program only set the flag from now on.
    pub fn install() -> Result<Interrupt> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, flag.clone()).map_err(Error::io("catching signals"))?;
        }
        Ok(Interrupt(flag))
    }

    /// Returns one that no signal sets, for tests: signals end them, and the kernel ends what they have started.
    pub fn never() -> Interrupt {
        Interrupt(Arc::default())
    }

    /// Returns [`Error::Interrupted`] if a signal has arrived.
    pub fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Sleeps until the time is up or a signal arrives.
    pub fn sleep(&self, duration: Duration) -> Result<()> {
        let end = Instant::now() + duration;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(TICK));
        }
    }
}
