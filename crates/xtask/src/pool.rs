//! Programs side by side.

use crate::failure::Failure;

/// Calls `run_next` in `lanes` threads until it returns `None`: there is no next program. Runs every program even if one fails, and
/// returns the failures.
pub fn run(lanes: usize, run_next: impl Fn() -> Option<Result<(), Failure>> + Sync) -> Result<(), Failure> {
    let lane = || std::iter::from_fn(&run_next).collect::<Vec<_>>();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().flat_map(|lane| lane.join().expect("it does not panic")).collect()
    });
    Failure::of_all(outcomes)
}
