//! Pipes as call descriptors, as user-mode Linux has them.
//!
//! A write to a pipe may wait for room, and for the pipe's lock, which its reader can hold for as long as it likes: by reading into memory
//! that it provides late. So each pipe has a thread that writes to it, which nobody waits for. A reader that stops it loses its own
//! notifications, and keeps the thread until it closes the pipe.

use handover::EventNotifier;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Most threads that write to pipes, for all peers together.
const MOST: usize = 64;

/// Threads that write to pipes.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Reports whether a descriptor is the end of a pipe that is written to.
pub(super) fn is_pipe(fd: &OwnedFd) -> io::Result<bool> {
    let is_written = fcntl_getfl(fd)? & OFlags::ACCMODE == OFlags::WRONLY;
    Ok(is_written && FileType::from_raw_mode(fstat(fd)?.st_mode) == FileType::Fifo)
}

/// The thread that writes to a pipe; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct PipeWriter(Arc<State>);

struct State {
    pipe: OwnedFd,
    notifier: EventNotifier,
    is_asked: AtomicBool,
    ends: AtomicBool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("pipe", &self.pipe).finish_non_exhaustive()
    }
}

impl PipeWriter {
    /// Starts the thread.
    pub(super) fn spawn(pipe: OwnedFd) -> io::Result<PipeWriter> {
        if THREADS.fetch_add(1, Ordering::Relaxed) >= MOST {
            THREADS.fetch_sub(1, Ordering::Relaxed);
            return Err(io::Error::other(format!("{MOST} pipes are in use already, which is the most")));
        }
        let start = || {
            let (is_asked, ends) = Default::default();
            let state = Arc::new(State { pipe, notifier: EventNotifier::new()?, is_asked, ends });
            let own = state.clone();
            thread::Builder::new().name("notify-pipe".into()).spawn(move || {
                own.run();
                THREADS.fetch_sub(1, Ordering::Relaxed);
            })?;
            Ok(PipeWriter(state))
        };
        start().inspect_err(|_| {
            THREADS.fetch_sub(1, Ordering::Relaxed);
        })
    }

    /// Has the thread write a notification. Several before it runs are one.
    pub(super) fn ask(&self) {
        if !self.0.is_asked.swap(true, Ordering::AcqRel) {
            self.0.notifier.notify();
        }
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        self.0.ends.store(true, Ordering::Release);
        self.0.notifier.notify();
    }
}

impl State {
    fn run(&self) {
        while !self.ends.load(Ordering::Acquire) {
            // An interruption ends the wait early: then nobody has asked.
            let _ = poll(&mut [PollFd::new(self.notifier.fd(), PollFlags::IN)], None);
            self.notifier.clear();
            if self.is_asked.swap(false, Ordering::AcqRel) {
                // What an eventfd would count. Without a reader it fails, and the session ends by itself.
                let _ = rustix::io::write(&self.pipe, &1u64.to_ne_bytes());
            }
        }
    }
}
