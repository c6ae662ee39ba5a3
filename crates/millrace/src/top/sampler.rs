//! A thread that takes samples, so that a switch that is slow to answer does not hold up the keys.

use super::sample::Sample;
use client::ClientError;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

/// Longest time until the first rates.
const FIRST: Duration = Duration::from_millis(250);

/// The thread's samples. The thread ends after this is dropped.
pub(super) struct Sampler {
    samples: Receiver<Result<Sample, ClientError>>,
}

impl Sampler {
    /// Takes a sample of the switch at `socket` every `interval`, the first one earlier if that is long.
    pub(super) fn start(socket: &Path, interval: Duration) -> io::Result<Sampler> {
        // One that waits is enough: a screen that is not drawn needs no more.
        let (sender, samples) = sync_channel(1);
        let socket = socket.to_owned();
        thread::Builder::new().name("sampler".to_owned()).spawn(move || {
            let mut pause = interval.min(FIRST);
            loop {
                thread::sleep(pause);
                if sender.send(Sample::take(&socket)).is_err() {
                    return;
                }
                pause = interval;
            }
        })?;
        Ok(Sampler { samples })
    }

    /// Returns the next sample if there is one, or the reason why the switch gave none.
    pub(super) fn next(&self) -> io::Result<Option<Result<Sample, ClientError>>> {
        match self.samples.try_recv() {
            Ok(outcome) => Ok(Some(outcome)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(io::Error::other("the thread that takes samples has ended")),
        }
    }
}
