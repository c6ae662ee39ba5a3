//! Programs in parallel lanes; in each lane, one after the other.

use crate::command::{Failure, Run};

/// Runs all lanes at once, every program even if one fails, and returns the failures.
pub fn run<const N: usize>(lanes: [Vec<Run<'_>>; N]) -> Result<(), Failure> {
    let lane = |runs: Vec<Run<'_>>| runs.into_iter().filter_map(|run| run.run_aside().err()).collect::<Vec<_>>();
    let failures: Vec<Failure> = std::thread::scope(|scope| {
        let lanes = lanes.map(|runs| scope.spawn(|| lane(runs)));
        lanes.into_iter().flat_map(|lane| lane.join().expect("it does not panic")).collect()
    });
    if failures.is_empty() {
        return Ok(());
    }
    let words: Vec<String> = failures.iter().map(Failure::to_string).collect();
    Err(words.join("; ").into())
}
