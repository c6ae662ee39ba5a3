//! Work in turns, on one processor or on several: while one part works, the others wait, so that each finds the same in its
//! caches as on a processor of its own.

use super::rig::RigError;
use crate::statistics::Spread;
use crate::transfer::Transfer;
use loadgen::cpu::{self, PinError};
use loadgen::cycles;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The processors that take turns.
#[derive(Clone, Copy, Debug)]
pub struct Processors {
    /// For the part that works alone.
    pub alone: usize,
    /// For all other parts.
    pub others: usize,
}

/// Cycles per frame of one part.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// Alone on a processor.
    pub alone: f64,
    /// On one processor with all others.
    pub together: f64,
}

impl Timed {
    /// Returns the approximate number of cache lines per frame that come from another processor.
    pub fn lines(&self, cost: &Transfer) -> f64 {
        ((self.alone - self.together) / ((cost.read + cost.write) / 2.0)).max(0.0)
    }
}

/// A part's work, and the processor that does it.
pub struct Step<'s> {
    pub cpu: usize,
    pub work: &'s mut (dyn FnMut() -> Result<(), RigError> + Send),
}

/// Error of a turn.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum TurnError {
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error(transparent)]
    Rig(#[from] RigError),
}

/// No thread's turn: a step failed.
const OVER: usize = usize::MAX;

/// Runs all steps in order, `turns` times. Returns the cycles that each step took, turn by turn.
pub fn run(steps: Vec<Step<'_>>, turns: usize) -> Result<Vec<Vec<u64>>, TurnError> {
    let count = steps.len();
    let mut by_cpu = BTreeMap::<usize, Vec<(usize, Step<'_>)>>::new();
    for (index, step) in steps.into_iter().enumerate() {
        by_cpu.entry(step.cpu).or_default().push((index, step));
    }
    let now = AtomicUsize::new(0);
    let done = std::thread::scope(|scope| {
        let work = |(cpu, steps)| {
            scope.spawn({
                let now = &now;
                move || work(cpu, steps, turns, count, now).inspect_err(|_| now.store(OVER, Ordering::Release))
            })
        };
        let threads: Vec<_> = by_cpu.into_iter().map(work).collect();
        threads.into_iter().map(|thread| thread.join().expect("no step panics")).collect::<Result<Vec<_>, _>>()
    })?;
    let mut cycles = vec![Vec::new(); count];
    done.into_iter().flatten().for_each(|(index, taken)| cycles[index] = taken);
    Ok(cycles)
}

/// Does the steps of one processor. Returns the cycles of each, by its index.
fn work(
    cpu: usize,
    mut steps: Vec<(usize, Step<'_>)>,
    turns: usize,
    count: usize,
    now: &AtomicUsize,
) -> Result<Vec<(usize, Vec<u64>)>, TurnError> {
    cpu::pin(cpu)?;
    let mut taken: Vec<_> = steps.iter().map(|(index, _)| (*index, Vec::with_capacity(turns))).collect();
    for turn in 0..turns {
        for ((index, step), (_, taken)) in steps.iter_mut().zip(&mut taken) {
            let mine = turn * count + *index;
            while now.load(Ordering::Acquire) != mine {
                if now.load(Ordering::Relaxed) == OVER {
                    return Ok(Vec::new());
                }
                std::hint::spin_loop();
            }
            let start = cycles::now();
            (step.work)()?;
            taken.push(cycles::after_loads() - start);
            // Unless another step has failed meanwhile.
            let _ = now.compare_exchange(mine, mine + 1, Ordering::Release, Ordering::Relaxed);
        }
    }
    Ok(taken)
}

/// Returns the median of what turns took or moved.
pub fn median(values: &[u64]) -> f64 {
    Spread::of(values.iter().map(|&value| value as f64)).map_or(0.0, |spread| spread.median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn steps_take_turns_in_order() {
        let order = Mutex::new(Vec::new());
        let mut steps: Vec<_> = (0..3)
            .map(|name| {
                let order = &order;
                move || {
                    order.lock().unwrap().push(name);
                    Ok(())
                }
            })
            .collect();
        // Each takes the first processor, which every machine has, or the second, which must be there for any comparison.
        let cpus = [0, 0, 0];
        let steps = steps.iter_mut().zip(cpus).map(|(work, cpu)| Step { cpu, work }).collect();
        let taken = run(steps, 4).unwrap();
        assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 4]);
        assert_eq!(*order.lock().unwrap(), [0, 1, 2].repeat(4));
    }

    #[test]
    fn a_failure_ends_all() {
        let mut turns = 0;
        let mut fails = || {
            turns += 1;
            if turns < 3 { Ok(()) } else { Err(RigError::Wrong { received: 0, wanted: 1, corrupt: 0 }) }
        };
        let mut continues = || Ok(());
        let steps = vec![Step { cpu: 0, work: &mut continues }, Step { cpu: 0, work: &mut fails }];
        assert!(matches!(run(steps, 100), Err(TurnError::Rig(RigError::Wrong { .. }))));
        let mut idle = [|| Ok(()), || Ok(())];
        let steps = idle.iter_mut().zip([0, 4000]).map(|(work, cpu)| Step { cpu, work }).collect();
        assert!(matches!(run(steps, 100), Err(TurnError::Pin(_))));
    }
}
