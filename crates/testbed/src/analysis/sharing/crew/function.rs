//! The function of each thread: it reads a frame, spends its cycles, and writes down when it was done.

use super::wire::{FLOW, LAST};
use loadgen::cycles;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Packets of a full batch.
const BATCH: u64 = 32;
/// Longest wait for the other threads' first frames.
const PATIENCE: Duration = Duration::from_millis(100);

/// When threads have a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// Number of threads that begin together, each on a processor of its own.
    Together(u16),
    /// Threads on one processor take turns, a batch each: all take part, as with a processor for each.
    Batches,
    /// As they come.
    Any,
}

/// State that the functions of a measurement share.
pub struct Field<'s> {
    work: u64,
    frames: usize,
    /// Threads that have a frame, and the number of those that wait for each other before they begin.
    arrived: AtomicUsize,
    awaited: usize,
    /// Whether a thread lets others have its processor once a batch.
    yields: bool,
    /// Queues whose last frame was not processed. All their others were received before it.
    queues: AtomicUsize,
    /// Set when there is no such queue left.
    is_over: &'s AtomicBool,
    times: Mutex<Vec<Vec<u64>>>,
}

impl<'s> Field<'s> {
    /// Creates the field for threads that process `frames` frames of `queues` queues with `work` cycles each, and set
    /// `is_over` at the last one. They take turns as `turns` says.
    pub fn new(frames: usize, queues: u16, work: u64, turns: Turns, is_over: &'s AtomicBool) -> Field<'s> {
        let (arrived, times, queues) = (AtomicUsize::new(0), Mutex::default(), AtomicUsize::new(queues.into()));
        let awaited = if let Turns::Together(threads) = turns { threads.into() } else { 1 };
        Field { work, frames, arrived, awaited, yields: turns == Turns::Batches, queues, is_over, times }
    }

    /// Makes the function of a thread.
    pub fn function(&self) -> Function<'_> {
        Function { field: self, times: Vec::with_capacity(self.frames) }
    }

    /// Returns when each thread has processed each of its frames, once all functions have ended.
    pub fn times(self) -> Vec<Vec<u64>> {
        self.times.into_inner().expect("no thread panics with it")
    }

    /// Waits for other threads, for a while, and then for a random part of a batch's work: all batches take equally long, so that
    /// threads that begin at the same moment would need a lock at the same moment, again and again.
    #[cold]
    fn arrive(&self) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        while self.arrived.load(Ordering::Relaxed) < self.awaited && began.elapsed() < PATIENCE {
            thread::yield_now();
        }
        if self.awaited > 1 {
            let start = cycles::now();
            // Its last bits are as random as the moment at which the others arrived.
            let part = self.work * BATCH * (start / 64 % 256) / 256;
            while cycles::now().wrapping_sub(start) < part {}
        }
    }
}

/// The function of a thread.
pub struct Function<'f> {
    field: &'f Field<'f>,
    times: Vec<u64>,
}

impl Function<'_> {
    /// Processes a frame.
    #[inline(always)]
    pub fn process(&mut self, frame: &[u8]) {
        if self.times.is_empty() {
            self.field.arrive();
        }
        if self.field.yields && self.times.len().is_multiple_of(BATCH as usize) {
            thread::yield_now();
        }
        let start = cycles::now();
        let is_last = frame[LAST] != 0;
        black_box(frame[FLOW]);
        let mut now = start;
        while now.wrapping_sub(start) < self.field.work {
            now = cycles::now();
        }
        self.times.push(now);
        if is_last && self.field.queues.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.field.is_over.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Function<'_> {
    fn drop(&mut self) {
        self.field.times.lock().expect("no thread panics with it").push(std::mem::take(&mut self.times));
    }
}
