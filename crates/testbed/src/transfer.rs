//! Cost of moving many cache lines: a bound for every switch. When a frame of one line goes from one guest to another, a switch
//! that copies it moves the line twice: to read and to write it.

use crate::statistics::median;
use loadgen::cpu::{self, PinError};
use loadgen::cycles;
use packet::copy::{prefetch, prefetch_write};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// Number of lines moved at once, and their distance, as with packet buffers: no processor foresees the next one.
const LINES: usize = 64;
const APART: usize = 33;
/// Prefetch distance in lines.
const AHEAD: usize = 16;
const SAMPLES: usize = 2001;

/// Cycles per line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Reading, on the second processor, a line that the first one wrote.
    pub read: f64,
    /// Writing, on the first processor, a line that the second one has read.
    pub write: f64,
}

impl std::fmt::Display for Transfer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} cycles to read a line, {:.0} to write one, of many", self.read, self.write)
    }
}

#[repr(align(64))]
#[derive(Default)]
struct Line(AtomicU64);

/// Measures the cost between processors `a` and `b`, in a few milliseconds if both are free.
pub fn between(a: usize, b: usize) -> Result<Transfer, PinError> {
    let lines: Vec<Line> = (0..LINES * APART).map(|_| Line::default()).collect();
    let line = |at: usize| &lines[at * APART].0;
    // Even turns are a's to write, odd ones b's to read; the last one ends both.
    let turn = AtomicUsize::new(0);
    let last = 2 * SAMPLES;
    let wait_for = |mine: usize| {
        loop {
            let now = turn.load(Ordering::Acquire);
            if now == mine || now >= last {
                return now == mine;
            }
            std::hint::spin_loop();
        }
    };
    let enter = |cpu| cpu::pin(cpu).inspect_err(|_| turn.store(last, Ordering::Release));
    let side = |cpu: usize, first: usize, ask: fn(*const u8), touch: fn(&AtomicU64)| {
        enter(cpu)?;
        let mut samples = Vec::with_capacity(SAMPLES);
        for round in 0..SAMPLES {
            if !wait_for(2 * round + first) {
                break;
            }
            let start = cycles::now();
            (0..AHEAD).for_each(|at| ask(line(at).as_ptr().cast_const().cast()));
            for at in 0..LINES {
                if at + AHEAD < LINES {
                    ask(line(at + AHEAD).as_ptr().cast_const().cast());
                }
                touch(line(at));
            }
            fence(Ordering::SeqCst);
            samples.push(cycles::after_loads() - start);
            // Unless the other side has ended both meanwhile.
            let mine = 2 * round + first;
            let _ = turn.compare_exchange(mine, mine + 1, Ordering::Release, Ordering::Relaxed);
        }
        Ok(median(samples.into_iter().map(|cycles| cycles as f64 / LINES as f64)).unwrap_or(f64::NAN))
    };
    std::thread::scope(|scope| {
        let writing =
            scope.spawn(|| side(a, 0, |at| prefetch_write(at.cast_mut()), |word| word.store(1, Ordering::Relaxed)));
        let read = |word: &AtomicU64| {
            std::hint::black_box(word.load(Ordering::Relaxed));
        };
        let reading = scope.spawn(move || side(b, 1, prefetch, read));
        let write = writing.join().expect("the thread does not panic")?;
        let read = reading.join().expect("the thread does not panic")?;
        Ok(Transfer { read, write })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_processor_is_named_and_not_waited_for() {
        // Often, as the other side may just have its turn when this one finds out.
        for _ in 0..200 {
            assert!(between(0, 4000).is_err());
            assert!(between(4000, 0).is_err());
        }
    }
}
