//! A network function between two ports: it sends the frames received on one port out of the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::Guest;
use crate::rest;
use lab::{Error, Result};

/// Frames per burst.
const BURST: usize = 32;

/// A network function on a separate thread, until it is stopped.
pub struct Forwarder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<u64>>>,
}

impl Forwarder {
    /// Starts forwarding between two guests' ports.
    pub fn start(mut a: Guest, mut b: Guest) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut frames = 0;
            while !stopping.load(Ordering::Relaxed) {
                let moved = forward(&mut a, &mut b)? + forward(&mut b, &mut a)?;
                if moved == 0 {
                    rest();
                }
                frames += moved;
            }
            Ok(frames)
        });
        Self { stop, thread: Some(thread) }
    }

    /// Stops; returns the number of frames forwarded, or the error.
    pub fn stop(mut self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let panicked = || Error::malformed("the function", "its thread panicked");
        self.thread.take().map(JoinHandle::join).and_then(std::result::Result::ok).unwrap_or_else(|| Err(panicked()))
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn forward(from: &mut Guest, to: &mut Guest) -> Result<u64> {
    to.reap()?;
    let moved = from.receive(BURST, |frame| {
        while !to.send(&[frame], 1)? {
            to.flush();
            to.reap()?;
            rest();
        }
        Ok(())
    })?;
    if moved > 0 {
        to.flush();
    }
    Ok(moved as u64)
}
