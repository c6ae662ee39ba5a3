//! Assignment of cores.

use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity};

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
