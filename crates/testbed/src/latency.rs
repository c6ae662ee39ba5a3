//! Distance between two processors: virtual ones may be on one die or on two, and move while a test runs. Figures are
//! comparable only between runs at the same distance.

use crate::statistics::median;
use clap::Args;
use loadgen::cpu::{self, PinError};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// One-way time below which two processors count as near. Near ones were measured at about 40 ns, far ones at about 180 ns.
const NEAR: f64 = 100.0;
/// Round trips per sample, and number of samples.
const TRIPS: u64 = 2000;
const SAMPLES: usize = 25;

/// Which processors to measure between.
#[derive(Clone, Debug, Args)]
pub struct LatencyCores {
    /// One processor
    #[arg(default_value_t = 0)]
    pub a: usize,
    /// The other one
    #[arg(default_value_t = 1)]
    pub b: usize,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Distance between two processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distance {
    /// They share a cache.
    Near,
    /// They do not.
    Far,
}

impl std::fmt::Display for Distance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Distance::Near => "near",
            Distance::Far => "far",
        })
    }
}

/// Time that a cache line takes from one processor to the other.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// One way, in nanoseconds: the median of all samples, as other users of the machine disturb single ones.
    pub nanoseconds: f64,
    /// The resulting distance.
    pub distance: Distance,
}

impl std::fmt::Display for Latency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} ns one way: {}", self.nanoseconds, self.distance)
    }
}

/// A word in a separate cache line.
#[repr(align(128))]
struct Ball(AtomicU64);

/// Measures the latency between processors `a` and `b`, in a few milliseconds if both are free.
pub fn between(a: usize, b: usize) -> Result<Latency, PinError> {
    let ball = Ball(AtomicU64::new(0));
    let missing = Ball(AtomicU64::new(0));
    // Odd numbers are b's to answer, even ones a's: both spin on one word, whose line moves back and forth. No pause in the
    // loop: it would take as long as the measured time. Separate threads, since the caller must not be pinned.
    let wait_for = |value| {
        while ball.0.load(Ordering::Acquire) != value {
            if missing.0.load(Ordering::Relaxed) != 0 {
                return false;
            }
        }
        true
    };
    let enter = |cpu| cpu::pin(cpu).inspect_err(|_| missing.0.store(1, Ordering::Relaxed));
    std::thread::scope(|scope| {
        let answering = scope.spawn(|| {
            enter(b)?;
            for trip in 0..TRIPS * SAMPLES as u64 {
                if !wait_for(2 * trip + 1) {
                    break;
                }
                ball.0.store(2 * trip + 2, Ordering::Release);
            }
            Ok(())
        });
        let asking = scope.spawn(|| {
            enter(a)?;
            let mut samples = [f64::NAN; SAMPLES];
            for (number, sample) in (0..).zip(&mut samples) {
                let start = Instant::now();
                for trip in number * TRIPS..(number + 1) * TRIPS {
                    ball.0.store(2 * trip + 1, Ordering::Release);
                    if !wait_for(2 * trip + 2) {
                        break;
                    }
                }
                *sample = start.elapsed().as_nanos() as f64 / TRIPS as f64 / 2.0;
            }
            Ok(median(samples).expect("there are samples"))
        });
        answering.join().expect("the thread does not panic")?;
        let nanoseconds = asking.join().expect("the thread does not panic")?;
        let distance = if nanoseconds < NEAR { Distance::Near } else { Distance::Far };
        Ok(Latency { nanoseconds, distance })
    })
}
