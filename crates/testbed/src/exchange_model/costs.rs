//! The cost of a copy, and of the parts of an exchange that can be measured without the module.

use super::memory::{PAGE, Shared};
use crate::statistics::median;
use clap::Args;
use loadgen::cpu::PinError;
use loadgen::{cpu, cycles};
use packet::copy::Copier;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Lengths of frames.
pub const SIZES: [usize; 4] = [1518, 4096, 9000, 65_536];

/// Memory that no cache holds.
const COLD: usize = 256 << 20;

/// Samples of each cost, and repetitions in each.
const SAMPLES: usize = 31;
const REPEATED: usize = 200;

/// Pages of a long run.
const RUN: usize = 64;

/// Costs in cycles.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// For each of [`SIZES`]: in the caches, and not.
    pub copy: Vec<[f64; 2]>,
    /// Zeroing a page, in the caches and not.
    pub zero: [f64; 2],
    /// A system call that does nothing.
    pub syscall: f64,
    /// Page tables.
    pub pages: Pages,
}

/// Costs of changing page tables, in cycles.
#[derive(Debug, Clone, Copy, PartialEq, Args)]
pub struct Pages {
    /// Cycles of a fault that brings a page back, on a machine without hypervisor
    #[arg(long, default_value_t = 1000.0)]
    pub fault: f64,
    /// Cycles of taking a page out of a page table, and flushing the processor's own translation
    #[arg(long, default_value_t = 400.0)]
    pub unmap: f64,
    /// Cycles of each further page of a run
    #[arg(long, default_value_t = 60.0)]
    pub unmap_further: f64,
    /// Cycles until another processor has flushed its translations
    #[arg(long, default_value_t = 3000.0)]
    pub shootdown: f64,
}

/// Error of measuring.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error("memory to measure with: {0}")]
    Memory(#[from] std::io::Error),
}

impl Costs {
    /// Measures on one processor, while a thread on the other one uses the same memory for a part of the time.
    pub fn measure(here: usize, other: usize) -> Result<Costs, CostError> {
        let shared = Shared::new(COLD)?;
        std::thread::scope(|scope| {
            let measuring = scope.spawn(|| {
                cpu::pin(here)?;
                Ok(measure(&shared, other))
            });
            measuring.join().expect("measuring does not panic")
        })
    }
}

fn measure(shared: &Shared, other: usize) -> Costs {
    let copier = Copier::detect();
    // Odd, so that all places are visited before any is again.
    let mut place = 0usize;
    let mut next = move |len: usize| {
        place = place.wrapping_add(0x9e37_79b1 | 1);
        place % (COLD / len) * len
    };
    let copy = SIZES.map(|len| {
        let slot = len.next_multiple_of(PAGE);
        let warm = cycles_of(|_| shared.copy(copier, 0, slot, len));
        [warm, cycles_of(|_| shared.copy(copier, next(slot), next(slot), len))]
    });
    let zero = [cycles_of(|_| shared.zero(0)), cycles_of(|_| shared.zero(next(PAGE) / PAGE))];
    let syscall = cycles_of(|_| {
        std::hint::black_box(rustix::process::getppid());
    });
    // Long runs of faults, as one alone is too short to time.
    let fault = samples(|| {
        shared.unmap(0, REPEATED);
        let began = cycles::now();
        (0..REPEATED).for_each(|page| shared.touch(page));
        (cycles::now() - began) as f64 / REPEATED as f64
    });
    let unmap = |pages: usize, prepare: &dyn Fn()| {
        let each = std::iter::repeat_with(|| {
            (0..pages).for_each(|page| shared.touch(page));
            prepare();
            let began = cycles::now();
            shared.unmap(0, pages);
            (cycles::now() - began) as f64
        });
        median(each.take(SAMPLES * REPEATED)).expect("there are samples") - syscall
    };
    let one = unmap(1, &|| ());
    let unmap_further = (unmap(RUN, &|| ()) - one) / (RUN - 1) as f64;
    let shootdown = with_another(shared, other, |wait| unmap(1, wait)) - one;
    let pages =
        Pages { fault, unmap: one.max(0.0), unmap_further: unmap_further.max(0.0), shootdown: shootdown.max(0.0) };
    Costs { copy: copy.into(), zero, syscall, pages }
}

/// Measures while a thread on another processor uses the memory. `work` gets a way to wait until that thread runs: otherwise
/// its processor may do something else, and need not flush anything.
fn with_another(shared: &Shared, other: usize, work: impl FnOnce(&dyn Fn()) -> f64) -> f64 {
    let (rounds, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let pinned = cpu::pin(other);
            while pinned.is_ok() && !ends.load(Ordering::Relaxed) {
                std::hint::black_box(shared.look(shared.pages() - 1));
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        let wait = || {
            let before = rounds.load(Ordering::Relaxed);
            while rounds.load(Ordering::Relaxed) < before + 100 && !thread.is_finished() {
                std::hint::spin_loop();
            }
        };
        let cost = work(&wait);
        ends.store(true, Ordering::Relaxed);
        cost
    })
}

/// Returns the cycles of one repetition of `work`.
fn cycles_of(mut work: impl FnMut(usize)) -> f64 {
    samples(|| {
        let began = cycles::now();
        (0..REPEATED).for_each(&mut work);
        (cycles::now() - began) as f64 / REPEATED as f64
    })
}

fn samples(sample: impl FnMut() -> f64) -> f64 {
    median(std::iter::repeat_with(sample).take(SAMPLES)).expect("there are samples")
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Costs { zero: [warm, cold], syscall, pages, .. } = self;
        write!(f, "zeroing a page {warm:.0} warm, {cold:.0} cold; system call {syscall:.0}; {pages}")
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pages { fault, unmap, unmap_further, shootdown } = self;
        write!(
            f,
            "fault {fault:.0}, taking out a page {unmap:.0}, each further one {unmap_further:.0}, shootdown {shootdown:.0}"
        )
    }
}
