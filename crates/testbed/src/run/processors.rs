//! The processor of each thread of a run.

use super::record::AppPlacement;

/// The threads that need processors.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Number of switches.
    pub switches: usize,
    /// Threads of each that poll.
    pub polling: usize,
    /// Ends of all pairs.
    pub ends: usize,
    /// Whether all ends can be in one thread.
    pub joinable: bool,
}

/// Processors of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunProcessors {
    /// Those that each switch polls on.
    pub switches: Vec<Vec<usize>>,
    /// The processor of each end.
    pub ends: Vec<usize>,
    /// Whether the ends share processors, or a thread.
    pub placement: AppPlacement,
}

impl RunProcessors {
    /// Places them on these processors: switches first, each thread on one of its own if there are enough.
    pub fn of(need: Need, processors: &[usize]) -> RunProcessors {
        let Need { switches, polling, ends, joinable } = need;
        let at = |index: usize| processors[index % processors.len()];
        let of_switch = |switch: usize| (0..polling).map(|thread| at(switch * polling + thread)).collect();
        let taken = switches * polling;
        let free = if taken < processors.len() { &processors[taken..] } else { &processors[processors.len() - 1..] };
        let placement = match () {
            () if ends <= processors.len().saturating_sub(taken) => AppPlacement::Separate,
            () if joinable => AppPlacement::Joined,
            () => AppPlacement::Crowded,
        };
        let end = |end: usize| if placement == AppPlacement::Joined { free[0] } else { free[end % free.len()] };
        RunProcessors {
            switches: (0..switches).map(of_switch).collect(),
            ends: (0..ends).map(end).collect(),
            placement,
        }
    }

    /// Returns the processor for threads that sleep nearly all the time: the one of the first end.
    pub fn others(&self) -> usize {
        self.ends[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(switches: usize, polling: usize, ends: usize, joinable: bool, processors: &[usize]) -> RunProcessors {
        RunProcessors::of(Need { switches, polling, ends, joinable }, processors)
    }

    #[test]
    fn with_enough_processors_each_thread_has_its_own() {
        let place = place(1, 2, 4, true, &[0, 1, 2, 3, 4, 5]);
        assert_eq!(
            (place.switches, place.ends, place.placement),
            (vec![vec![0, 1]], vec![2, 3, 4, 5], AppPlacement::Separate)
        );
    }

    #[test]
    fn on_two_processors_the_ends_are_one_thread_beside_the_switch() {
        let two = place(1, 1, 4, true, &[0, 1]);
        assert_eq!((two.switches, two.ends, two.placement), (vec![vec![0]], vec![1; 4], AppPlacement::Joined));
        assert_eq!(place(1, 1, 2, false, &[0, 1]).placement, AppPlacement::Crowded);
    }

    #[test]
    fn a_switch_in_the_kernel_leaves_all_processors_to_the_ends() {
        let kernel = place(1, 0, 2, false, &[4, 7]);
        assert_eq!(
            (kernel.switches, kernel.ends, kernel.placement),
            (vec![vec![]], vec![4, 7], AppPlacement::Separate)
        );
        assert_eq!(place(1, 0, 4, false, &[4, 7]).ends, [4, 7, 4, 7]);
    }

    #[test]
    fn too_few_processors_are_shared() {
        let two_hosts = place(2, 1, 2, false, &[0, 1]);
        assert_eq!((two_hosts.switches, two_hosts.ends), (vec![vec![0], vec![1]], vec![1, 1]));
        let alone = place(1, 1, 2, true, &[3]);
        assert_eq!((alone.switches, alone.ends, alone.placement), (vec![vec![3]], vec![3, 3], AppPlacement::Joined));
    }
}
