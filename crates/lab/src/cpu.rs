//! Assignment of cores.

use std::fs::File;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity};

/// Pause before the next look for a free turn.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until fewer tests than there are cores have a turn, in this process and in others of the same build, and takes a turn until the
/// guard is dropped.
///
/// Tests that keep a core busy call it: if more run at once, each takes so much longer that nothing is gained.
///
/// # Panics
///
/// Panics if there can be no file beside the test's program.
pub fn turn() -> Turn {
    let turns = turns();
    loop {
        // The last one, if possible: tests that measure take the first one first.
        if let Some(free) = turns.iter().rposition(|turn| turn.try_lock().is_ok()) {
            return Turn { _locked: turns.into_iter().skip(free).take(1).collect() };
        }
        std::thread::sleep(PAUSE);
    }
}

/// Takes the turns of all cores, when other tests have given them back.
///
/// Tests that measure call it: what they start polls on all cores.
///
/// # Panics
///
/// Panics if there can be no file beside the test's program.
pub fn turn_of_each_core() -> Turn {
    let turns = turns();
    // In the same order in each test: no two wait for each other.
    turns.iter().for_each(|turn| turn.lock().expect("a file can be locked"));
    Turn { _locked: turns }
}

/// Opens the files whose locks are the turns.
fn turns() -> Vec<File> {
    let program = std::env::current_exe().expect("this program has a path");
    let names = (0..available().len()).map(|number| program.with_file_name(format!("turn-{number}.lock")));
    names.map(|name| File::create(name).expect("a file beside the test's program")).collect()
}

/// A turn at keeping a core busy, or several.
#[must_use]
pub struct Turn {
    _locked: Vec<File>,
}

/// Leaves the processor to others when nothing has moved. A thread that only yields stays runnable, and keeps those that wake up
/// waiting until its time slice ends.
pub fn rest() {
    std::thread::sleep(Duration::from_micros(20));
}

/// Returns the cores that this process may run on, in ascending order. Never empty.
pub fn available() -> Vec<usize> {
    let cores = sched_getaffinity(None)
        .map(|set| (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect())
        .unwrap_or_else(|_| Vec::new());
    if cores.is_empty() { vec![0] } else { cores }
}

/// A division of the cores between the switch under test and everything around it.
///
/// A polling thread must not share its core, or both sides slow down to the length of a time slice. With a single core there is
/// nothing to divide: tests still pass, but slowly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The core of the switch's worker.
    pub switch: usize,
    /// Cores of the guests; the first of them is for a guest that polls.
    pub guests: Vec<usize>,
}

impl Plan {
    /// Returns the plan for this machine: the first core for the switch, the others for the guests.
    pub fn detect() -> Self {
        Self::over(&available())
    }

    fn over(cores: &[usize]) -> Self {
        let guests = if cores.len() > 1 { &cores[1..] } else { cores };
        Self { switch: cores[0], guests: guests.to_vec() }
    }

    /// Returns the core for a guest that polls.
    pub fn guest(&self) -> usize {
        self.guests[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_core_is_shared() {
        assert_eq!(Plan::over(&[3]), Plan { switch: 3, guests: vec![3] });
    }

    #[test]
    fn the_switch_has_its_core_to_itself() {
        assert_eq!(Plan::over(&[1, 4, 5]), Plan { switch: 1, guests: vec![4, 5] });
    }

    #[test]
    fn this_machine_has_a_core() {
        assert!(!available().is_empty());
    }
}
