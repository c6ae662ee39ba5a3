//! Turns of ports: they share a worker by the time that they take of it, however many queues they have and whatever their frames cost.
//!
//! The time of each port's bursts is added up: copies, look-ups and outputs are all in it. A port that is ahead of the one that has had
//! least of those with more to do than they got waits until that one has caught up (start-time fair queueing: Goyal, Vin and Cheng,
//! SIGCOMM 1996). A port that had nothing to do gets no credit for it, and a worker with one busy port never waits. While no port has
//! more to do than it gets, nothing is measured.

use super::input::Input;
use crate::clock::Cycles;

/// Part of a second that a port may be ahead: some bursts, so that ports whose bursts cost about the same take turns as they come.
const LEAD_PER_SECOND: u64 = 20_000;

/// Part of a second that a burst counts for at most. If it took longer, the worker had no processor meanwhile.
const LONGEST_PER_SECOND: u64 = 50;

/// Turns of the ports of a worker's queues.
pub(super) struct Turns {
    ports: Vec<Turn>,
    /// By input: the index of its port.
    port_of: Vec<usize>,
    /// Cycles that a port may be ahead, and that a burst counts for at most.
    lead: u64,
    longest: u64,
    /// Time of the port that has had least, of those with more to do; of that which has had most, if none has.
    floor: u64,
    /// Whether any port has more to do than it got in this round, and there are several.
    is_busy: bool,
    /// Whether it was so in the last round: then bursts are timed.
    is_timed: bool,
    /// Input with which the round begins, and the one with which the next one does.
    first: usize,
    next_first: Option<usize>,
}

struct Turn {
    /// Id of the port.
    port: u64,
    /// Cycles that it has had.
    taken: u64,
    /// Whether it has more to do than it got in this round.
    has_more: bool,
}

impl Turns {
    pub(super) fn new(cycles: &Cycles) -> Turns {
        let [lead, longest] = [LEAD_PER_SECOND, LONGEST_PER_SECOND].map(|part| cycles.hz() / part);
        Turns {
            ports: Vec::new(),
            port_of: Vec::new(),
            lead,
            longest,
            floor: 0,
            is_busy: false,
            is_timed: false,
            first: 0,
            next_first: None,
        }
    }

    /// Takes over the inputs of a plan. Ports that stay keep their time.
    pub(super) fn assign(&mut self, inputs: &[Input]) {
        let mut had = std::mem::take(&mut self.ports);
        self.port_of.clear();
        for port in inputs.iter().map(|input| input.route.from.port) {
            let index = self.ports.iter().position(|turn| turn.port == port).unwrap_or_else(|| {
                let known = had.iter().position(|turn| turn.port == port).map(|at| had.swap_remove(at));
                self.ports.push(known.unwrap_or(Turn { port, taken: self.floor, has_more: false }));
                self.ports.len() - 1
            });
            self.port_of.push(index);
        }
        (self.first, self.next_first) = (0, None);
    }

    /// Begins a round; returns the input with which it begins.
    #[inline(always)]
    pub(super) fn begin(&mut self) -> usize {
        if self.is_busy || self.is_timed {
            self.compare();
        }
        self.first
    }

    /// Compares what the ports have had.
    #[inline(never)]
    fn compare(&mut self) {
        let (mut least, mut most) = (u64::MAX, self.floor);
        for turn in &mut self.ports {
            most = most.max(turn.taken);
            if std::mem::take(&mut turn.has_more) {
                least = least.min(turn.taken);
            }
        }
        // A port that had more to do may have gone.
        self.is_timed = std::mem::take(&mut self.is_busy) && least != u64::MAX;
        self.floor = if self.is_timed { least } else { most };
        if let Some(first) = self.next_first.take() {
            self.first = first;
        }
    }

    /// Reports whether it is the turn of an input's port.
    #[inline(always)]
    pub(super) fn is_of(&mut self, input: usize) -> bool {
        !self.is_timed || !self.waits(input)
    }

    /// Lets an input wait, if its port is ahead.
    #[inline(never)]
    fn waits(&mut self, input: usize) -> bool {
        let turn = &mut self.ports[self.port_of[input]];
        let is_ahead = turn.taken > self.floor + self.lead;
        if is_ahead {
            (turn.has_more, self.is_busy) = (true, true);
            // It goes on from here, so that all queues of a port have their turn.
            self.next_first.get_or_insert(input);
        }
        is_ahead
    }

    /// Notes a burst of an input's port that began at `since`. `is_full` says that there may be more where it came from.
    #[inline(always)]
    pub(super) fn charge(&mut self, input: usize, is_full: bool, since: &mut u64, cycles: &Cycles) {
        if self.is_timed {
            let now = cycles.now();
            self.add(input, now.wrapping_sub(std::mem::replace(since, now)), is_full);
        } else if is_full && self.ports.len() > 1 {
            self.add(input, 0, true);
        }
    }

    #[inline(never)]
    fn add(&mut self, input: usize, took: u64, is_full: bool) {
        let turn = &mut self.ports[self.port_of[input]];
        turn.taken = turn.taken.max(self.floor) + took.min(self.longest);
        turn.has_more |= is_full;
        self.is_busy |= is_full;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycles of lead.
    const LEAD: u64 = 100;

    /// Returns the turns of queues of these ports.
    fn turns(ports: &[u64]) -> Turns {
        let mut known: Vec<u64> = ports.to_vec();
        known.dedup();
        Turns {
            port_of: ports.iter().map(|port| known.iter().position(|one| one == port).unwrap()).collect(),
            ports: known.into_iter().map(|port| Turn { port, taken: 0, has_more: false }).collect(),
            lead: LEAD,
            longest: 5000,
            floor: 0,
            is_busy: false,
            is_timed: false,
            first: 0,
            next_first: None,
        }
    }

    /// Notes a burst, which takes time only if it is measured.
    fn burst(turns: &mut Turns, input: usize, took: u64, is_full: bool) {
        let took = if turns.is_timed { took } else { 0 };
        turns.add(input, took, is_full);
    }

    /// Runs rounds in which each queue has a burst of this cost, and more; returns how often each had its turn.
    fn run(turns: &mut Turns, costs: &[u64], rounds: usize) -> Vec<u64> {
        let mut served = vec![0; costs.len()];
        for _ in 0..rounds {
            let first = turns.begin();
            for input in (first..costs.len()).chain(0..first) {
                if costs[input] > 0 && turns.is_of(input) {
                    burst(turns, input, costs[input], true);
                    served[input] += 1;
                }
            }
        }
        served
    }

    fn time(served: &[u64], costs: &[u64]) -> u64 {
        served.iter().zip(costs).map(|(count, cost)| count * cost).sum()
    }

    #[test]
    fn many_queues_have_one_share_and_each_of_them_its_turn() {
        let ports = [&[7][..], &[8; 64]].concat();
        let costs = [10; 65];
        let served = run(&mut turns(&ports), &costs, 100_000);
        let (one, many) = (time(&served[..1], &costs), time(&served[1..], &costs[1..]));
        // The first round is not timed.
        assert!(one.abs_diff(many) <= 2 * LEAD + 64 * 10, "{one} {many}");
        let (least, most) = (served[1..].iter().min().unwrap(), served[1..].iter().max().unwrap());
        assert!(most - least <= 2, "{served:?}");
    }

    #[test]
    fn dear_frames_have_the_same_share() {
        let costs = [1, 1000, 30];
        let served = run(&mut turns(&[1, 2, 3]), &costs, 100_000);
        let times: Vec<u64> = served.iter().zip(costs).map(|(count, cost)| count * cost).collect();
        assert!(times.iter().all(|time| time.abs_diff(times[0]) <= LEAD + 2 * 1000), "{times:?}");
    }

    #[test]
    fn a_port_that_had_more_to_do_may_go() {
        let turns = &mut turns(&[1, 2, 3]);
        run(turns, &[10, 10, 10], 10);
        turns.ports.iter_mut().for_each(|turn| turn.has_more = false);
        assert!(run(turns, &[10, 10, 10], 10).iter().all(|served| *served == 10));
    }

    #[test]
    fn a_worker_without_a_processor_is_nobodys_fault() {
        let turns = &mut turns(&[1, 2]);
        turns.begin();
        burst(turns, 0, 1 << 40, true);
        burst(turns, 1, 1, true);
        let served = run(turns, &[10, 10], 1000);
        assert!(served[0] > 200, "{served:?}");
    }

    #[test]
    fn a_busy_port_alone_waits_for_nobody() {
        let turns = &mut turns(&[1, 2]);
        assert_eq!(run(turns, &[1000, 0], 1000), [1000, 0]);
        // The other one has no credit for that.
        let served = run(turns, &[1000, 1000], 1000);
        assert!(served[0].abs_diff(served[1]) <= 2, "{served:?}");
    }

    #[test]
    fn who_has_little_to_do_holds_up_nobody() {
        let turns = &mut turns(&[1, 2]);
        for _ in 0..1000 {
            turns.begin();
            assert!(turns.is_of(0), "the other one takes all that it gets");
            burst(turns, 0, 1000, true);
            assert!(turns.is_of(1));
            burst(turns, 1, 1, false);
        }
    }

    #[test]
    fn full_rings_of_all_ports_are_equal_to_none() {
        let turns = &mut turns(&[1, 2]);
        for _ in 0..1000 {
            turns.begin();
            for input in 0..2 {
                assert!(turns.is_of(input));
                burst(turns, input, 1000 * (1 + input as u64), false);
            }
        }
        let served = run(turns, &[10, 10], 1000);
        assert!(
            served[0].abs_diff(served[1]) <= 2 + 2 * LEAD / 10,
            "nobody pays for what nobody else wanted: {served:?}"
        );
    }
}
