//! Turns of ports: a port may take a few times the time of a worker that another busy port takes, however many queues it has and
//! whatever its frames cost.
//!
//! Ports have their turns round by round, a burst from each queue. Equal time for all would be fairer, but frames that visit
//! several ports of one worker would be lost where they cost most: equal numbers of frames let a chain of ports run without loss.
//! So ports get equal numbers until one takes more than `ratio` times the time of another one that has more to do than it gets. From
//! then on it has an allowance for each round. A port that overdraws it waits (deficit round robin: Shreedhar and Varghese, SIGCOMM
//! 1995); its queues go on where they stopped, with no more frames than the allowance is likely to pay for.
//!
//! Time is measured only if there are several ports, and seldom while no port exceeds its allowance.

use super::input::Input;
use crate::clock::Cycles;
use packet::MAX_BURST;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

/// Time that a port may always take in a round: about a full burst of short frames. Shorter turns would cost more than they give.
const LEAST: Duration = Duration::from_micros(5);

/// Time that a burst counts for at most. If it took longer, the worker probably had no processor meanwhile.
const LONGEST: Duration = Duration::from_millis(2);

/// Part of the allowance by which it grows in a round.
const GROWTH: u64 = 8;

/// Rounds in which no port exceeds its allowance before most rounds are not measured.
const CALM: u32 = 64;

/// Rounds that are not measured between two that are.
const SELDOM: u32 = 16;

/// Turns of the ports of a worker.
pub(super) struct Turns {
    ports: Vec<Account>,
    /// The plan's inputs in the order of a measured round: those of a port together, the one that waited longest first.
    order: Vec<Place>,
    /// Ports that had a turn in this round, or should have had one.
    active: Vec<usize>,
    /// Multiple of the least time.
    ratio: u64,
    /// Cycles of [`LEAST`] and [`LONGEST`].
    least: u64,
    longest: u64,
    /// Cycles that each port gets for a round.
    allowance: u64,
    /// Whether this round is measured.
    is_measured: bool,
    /// Measured rounds in a row in which no port exceeded its allowance.
    calm: u32,
    /// Rounds until the next one that is measured. None is if there is only one port.
    skip: u32,
    has_several: bool,
    current: Option<Current>,
}

/// An input in the order of turns.
struct Place {
    input: usize,
    /// Index of its port.
    port: usize,
}

/// A turn of an input.
pub(super) struct Turn {
    pub(super) input: usize,
    /// Maximum number of frames.
    pub(super) frames: usize,
}

/// The queue that has its turn.
struct Current {
    port: usize,
    since: u64,
    frames: u64,
    /// Whether it may have more frames than it was asked for, and was asked for a whole burst.
    is_backlogged: bool,
    is_limited: bool,
}

/// What a port has of a worker.
struct Account {
    /// Id of the port.
    id: u64,
    /// Its first place, and number of places.
    first: usize,
    places: usize,
    /// Cycles that are left of its allowances; it waits if there are none.
    left: i64,
    /// Cycles that a frame took lately.
    frame: u64,
    /// Cycles taken in this round.
    taken: u64,
    is_active: bool,
    is_backlogged: bool,
    /// Whether it had fewer frames in this round than it wanted, and its first place that waits.
    is_limited: bool,
    waits: Option<usize>,
}

impl Turns {
    pub(super) fn new(ratio: NonZeroU32, cycles: &Cycles) -> Turns {
        Turns::of(ratio.get(), cycles.per(LEAST), cycles.per(LONGEST))
    }

    fn of(ratio: u32, least: u64, longest: u64) -> Turns {
        Turns {
            ports: Vec::new(),
            order: Vec::new(),
            active: Vec::new(),
            ratio: ratio.into(),
            least,
            longest,
            allowance: longest,
            is_measured: false,
            calm: 0,
            skip: 0,
            has_several: false,
            current: None,
        }
    }

    /// Takes over the inputs of a plan, and those that are down: their ports keep what they owe.
    pub(super) fn assign(&mut self, inputs: &[Input], resting: &[Input]) {
        let ids = |inputs: &[Input]| inputs.iter().map(|input| input.route.from.port).collect::<Vec<_>>();
        self.assign_ids(&ids(inputs), &ids(resting));
    }

    fn assign_ids(&mut self, inputs: &[u64], resting: &[u64]) {
        let mut had: HashMap<u64, Account> = self.ports.drain(..).map(|turn| (turn.id, turn)).collect();
        let mut numbers = HashMap::new();
        let mut number = |id: u64| {
            *numbers.entry(id).or_insert_with(|| {
                self.ports.push(had.remove(&id).unwrap_or_else(|| Account::new(id, self.allowance)));
                self.ports.len() - 1
            })
        };
        self.order = inputs.iter().enumerate().map(|(input, &id)| Place { input, port: number(id) }).collect();
        resting.iter().for_each(|&id| _ = number(id));
        self.order.sort_by_key(|place| place.port);
        for (index, turn) in self.ports.iter_mut().enumerate() {
            turn.first = self.order.partition_point(|place| place.port < index);
            turn.places = self.order.partition_point(|place| place.port <= index) - turn.first;
            turn.begin();
        }
        self.active = Vec::with_capacity(self.ports.len());
        self.has_several = self.ports.iter().filter(|turn| turn.places > 0).count() > 1;
        self.is_measured &= self.has_several;
        self.current = None;
    }

    /// Begins a round.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        if self.skip == 0 {
            self.is_measured = self.has_several;
        } else {
            self.skip -= 1;
        }
    }

    /// Reports whether this round is measured. If not, all inputs have full turns in their own order.
    #[inline(always)]
    pub(super) fn is_measured(&self) -> bool {
        self.is_measured
    }

    /// Ends a turn at `now`, and begins that at a place of the round. `None` if the port has to wait.
    #[inline(never)]
    pub(super) fn next(&mut self, place: usize, now: u64) -> Option<Turn> {
        self.charge(now);
        let Place { input, port } = self.order[place];
        let turn = &mut self.ports[port];
        if turn.left <= 0 {
            turn.waits.get_or_insert(place);
            self.activate(port);
            return None;
        }
        let frames = (turn.left as u64 / turn.frame.max(1)).clamp(1, MAX_BURST as u64) as usize;
        let is_limited = frames < MAX_BURST;
        self.current = Some(Current { port, since: now, frames: 0, is_backlogged: false, is_limited });
        Some(Turn { input, frames })
    }

    /// Notes the burst of the turn.
    pub(super) fn note(&mut self, frames: u64, is_full: bool) {
        if let Some(current) = &mut self.current {
            (current.frames, current.is_backlogged) = (frames, is_full);
        }
    }

    /// Charges what the turn has taken until `now`.
    fn charge(&mut self, now: u64) {
        let Some(Current { port, since, frames, is_backlogged, is_limited }) = self.current.take() else { return };
        let took = now.wrapping_sub(since).min(self.longest);
        let turn = &mut self.ports[port];
        turn.taken += took;
        turn.left -= took as i64;
        if let Some(each) = took.checked_div(frames) {
            turn.frame = (3 * turn.frame + each) / 4;
            turn.is_backlogged |= is_backlogged;
            turn.is_limited |= is_backlogged && is_limited;
            self.activate(port);
        }
    }

    fn activate(&mut self, port: usize) {
        if !std::mem::replace(&mut self.ports[port].is_active, true) {
            self.active.push(port);
        }
    }

    /// Ends a measured round, and divides the time of the next one.
    #[inline(never)]
    pub(super) fn end(&mut self, now: u64) {
        self.charge(now);
        let backlogged = self.active.iter().map(|&port| &self.ports[port]).filter(|turn| turn.is_backlogged);
        let free = backlogged.filter(|turn| !turn.is_limited && turn.waits.is_none());
        let least = free.map(|turn| turn.taken).min();
        // The allowance grows while all ports that are not limited get all that they want: slowly, as they wait for longer then.
        let wanted = least.map_or(self.allowance + self.allowance.div_ceil(GROWTH), |least| self.ratio * least);
        self.allowance = wanted.clamp(self.least, self.longest);
        let mut is_calm = true;
        for port in self.active.drain(..) {
            let turn = &mut self.ports[port];
            is_calm &= !turn.is_limited && turn.waits.is_none() && turn.taken <= self.allowance;
            if let Some(place) = turn.waits {
                self.order[turn.first..turn.first + turn.places].rotate_left(place - turn.first);
            }
            turn.left = turn.left.saturating_add_unsigned(self.allowance).min(self.allowance as i64);
            turn.begin();
        }
        self.calm = if is_calm { (self.calm + 1).min(CALM) } else { 0 };
        if self.calm == CALM {
            (self.is_measured, self.skip) = (false, SELDOM);
        }
    }
}

impl Account {
    fn new(id: u64, left: u64) -> Account {
        let (taken, frame) = (0, 0);
        Account {
            id,
            first: 0,
            places: 0,
            left: left as i64,
            frame,
            taken,
            is_active: false,
            is_backlogged: false,
            is_limited: false,
            waits: None,
        }
    }

    /// Begins a round.
    fn begin(&mut self) {
        (self.taken, self.is_active, self.is_backlogged, self.is_limited) = (0, false, false, false);
        self.waits = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycles of a burst of the cheapest frames, and of the least and the longest turn.
    const BURST: u64 = 32 * 50;
    const LEAST: u64 = 100;
    const LONGEST: u64 = 2_000_000;

    /// A queue whose frames cost so many cycles, and of which so many come in each cycle; all that there is room for if `None`.
    #[derive(Clone, Copy)]
    struct Load {
        port: u64,
        cost: u64,
        every: Option<u64>,
    }

    const fn busy(port: u64, cost: u64) -> Load {
        Load { port, cost, every: None }
    }

    /// A simulated worker.
    struct Rig {
        turns: Turns,
        loads: Vec<Load>,
        now: u64,
        /// Rounds that were measured.
        measured: u32,
        /// Frames forwarded, by queue.
        served: Vec<u64>,
        /// Most frames that have ever waited, by queue.
        waited: Vec<u64>,
    }

    impl Rig {
        fn new(ratio: u32, loads: &[Load]) -> Rig {
            let mut turns = Turns::of(ratio, LEAST, LONGEST);
            turns.assign_ids(&loads.iter().map(|load| load.port).collect::<Vec<_>>(), &[]);
            let none = vec![0; loads.len()];
            Rig { turns, loads: loads.to_vec(), now: 0, measured: 0, served: none.clone(), waited: none }
        }

        /// Runs for so many cycles; returns how many frames of each queue were forwarded meanwhile.
        fn run(&mut self, cycles: u64) -> Vec<u64> {
            let (end, before) = (self.now + cycles, self.served.clone());
            while self.now < end {
                self.now += 20;
                self.turns.begin();
                let is_measured = self.turns.is_measured;
                self.measured += u32::from(is_measured);
                for place in 0..self.loads.len() {
                    let turn = Turn { input: place, frames: MAX_BURST };
                    let turn = if is_measured { self.turns.next(place, self.now) } else { Some(turn) };
                    let Some(Turn { input: queue, frames: most }) = turn else { continue };
                    let Load { cost, every, .. } = self.loads[queue];
                    let waiting = every.map_or(u64::MAX, |every| self.now / every - self.served[queue]);
                    let frames = waiting.min(most as u64);
                    if every.is_some() {
                        self.waited[queue] = self.waited[queue].max(waiting);
                    }
                    if frames > 0 {
                        self.turns.note(frames, frames == most as u64);
                    }
                    self.now += 10 + frames * cost;
                    self.served[queue] += frames;
                }
                if is_measured {
                    self.turns.end(self.now);
                }
            }
            self.served.iter().zip(before).map(|(now, before)| now - before).collect()
        }

        /// The same, as the time of each port.
        fn times(&mut self, cycles: u64) -> HashMap<u64, u64> {
            let served = self.run(cycles);
            let mut times = HashMap::new();
            for (load, frames) in self.loads.iter().zip(served) {
                *times.entry(load.port).or_default() += frames * load.cost;
            }
            times
        }
    }

    #[test]
    fn many_queues_have_the_turns_of_a_few_and_none_is_left_out() {
        let mut rig = Rig::new(4, &[&[busy(7, 50)][..], &[busy(8, 50); 64]].concat());
        let served = rig.run(100_000_000);
        let (one, many) = (served[0], served[1..].iter().sum::<u64>());
        assert!((3 * one..6 * one).contains(&many), "{one} {many}");
        let (least, most) = (served[1..].iter().min().unwrap(), served[1..].iter().max().unwrap());
        assert!(most - least <= 4 * MAX_BURST as u64, "{served:?}");
    }

    #[test]
    fn dear_frames_take_a_few_times_the_time_of_others_and_no_more() {
        for ratio in [1, 4, 16] {
            let mut rig = Rig::new(ratio, &[busy(1, 50), busy(2, 20_000)]);
            let times = rig.times(1_000_000_000);
            let (cheap, dear) = (times[&1], times[&2]);
            let most = u64::from(ratio) * cheap;
            assert!(dear <= most * 3 / 2 + 32 * 20_000 && dear * 2 > most, "{ratio}: {cheap} {dear}");
        }
    }

    #[test]
    fn ports_send_equal_numbers_of_frames_while_none_takes_too_much() {
        let mut rig = Rig::new(4, &[busy(1, 50), busy(2, 180), busy(3, 60)]);
        let served = rig.run(10_000_000);
        assert!(served.iter().all(|frames| frames.abs_diff(served[0]) <= MAX_BURST as u64), "{served:?}");
    }

    #[test]
    fn a_port_that_sends_less_than_its_share_has_short_waits() {
        // A frame in 500 cycles, and 50 for each: a tenth of the time.
        let moderate = Load { port: 1, cost: 50, every: Some(500) };
        let mut rig = Rig::new(4, &[moderate, busy(2, 20_000)]);
        rig.run(10_000_000);
        rig.waited[0] = 0;
        rig.run(100_000_000);
        assert!(rig.waited[0] < 256, "a ring would overflow: {}", rig.waited[0]);
        assert!(rig.served[0] > rig.now / 500 - 256, "{:?}", rig.served);
    }

    #[test]
    fn a_busy_port_alone_waits_for_nobody() {
        let idle = Load { port: 1, cost: 50, every: Some(1 << 40) };
        let mut rig = Rig::new(4, &[idle, busy(2, 20_000), idle]);
        let served = rig.run(100_000_000);
        assert!(served[1] >= 100_000_000 / 20_000 - 2 * MAX_BURST as u64, "{served:?}");
        // It owes nothing for that when another one becomes busy.
        rig.loads[0].every = None;
        rig.served[0] = 0;
        rig.run(2 * LONGEST);
        let times = rig.times(100_000_000);
        assert!(times[&2] > 2 * times[&1], "{times:?}");
    }

    #[test]
    fn a_queue_that_starts_again_owes_what_it_owed() {
        let mut rig = Rig::new(4, &[busy(1, 50), busy(2, 60_000)]);
        rig.run(10_000_000);
        let owed = rig.turns.ports[1].left;
        rig.turns.assign_ids(&[1], &[2]);
        rig.turns.assign_ids(&[2, 1], &[]);
        let turn = rig.turns.ports.iter().find(|turn| turn.id == 2).unwrap();
        assert_eq!(turn.left, owed);
        rig.turns.assign_ids(&[1, 3], &[]);
        assert!(rig.turns.ports.iter().all(|turn| turn.id != 2));
    }

    #[test]
    fn rounds_are_measured_seldom_while_nobody_takes_too_much() {
        let mut rig = Rig::new(4, &[busy(1, 50), busy(2, 50)]);
        rig.run(2 * u64::from(CALM) * 2 * BURST);
        let before = rig.measured;
        (0..1000).for_each(|_| drop(rig.run(1)));
        let measured = rig.measured - before;
        assert!(measured.abs_diff(1000 / (SELDOM + 1)) <= 1, "{measured}");
        rig.loads[1].cost = 20_000;
        rig.run(10 * LONGEST);
        let times = rig.times(100_000_000);
        assert!(times[&2] < 7 * times[&1], "{times:?}");
    }

    #[test]
    fn a_worker_without_a_processor_takes_little_from_the_port_that_had_its_turn() {
        let mut rig = Rig::new(4, &[busy(1, 50), busy(2, 50)]);
        rig.run(1000);
        rig.turns.is_measured = true;
        rig.turns.next(0, rig.now).unwrap();
        rig.turns.note(32, true);
        rig.now += 1 << 40;
        rig.turns.charge(rig.now);
        let served = rig.run(20 * LONGEST);
        assert!(served[0] > served[1] / 2, "{served:?}");
    }
}
