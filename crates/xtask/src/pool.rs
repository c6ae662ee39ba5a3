//! Programs side by side, as many at once as there is room for.

use crate::command::Run;
use crate::failure::Failure;

/// Runs programs in `lanes` threads; each takes the next one from `next` when it has ended one. Runs every program even if one
/// fails, and returns the failures.
pub fn run<'c>(lanes: usize, next: impl Fn() -> Option<Run<'c>> + Sync) -> Result<(), Failure> {
    let lane = || std::iter::from_fn(&next).map(Run::run_aside).collect::<Vec<_>>();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().flat_map(|lane| lane.join().expect("it does not panic")).collect()
    });
    Failure::of_all(outcomes)
}
