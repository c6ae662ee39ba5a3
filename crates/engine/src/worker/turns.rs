//! Turns of ports: while several have more to do than they get, none takes more of a worker in a round than a turn, however many queues
//! it has and whatever its frames cost.
//!
//! Ports have their turns round by round, with a burst from each queue. Usual bursts are shorter than a turn. Then ports have equal
//! numbers of frames, and those that pass several ports of a worker are not lost on the way; equal times would lose them where they
//! cost most. A port that overdraws its turn waits until later rounds have paid for it (deficit round robin: Shreedhar and Varghese,
//! SIGCOMM 1995). Its queues go on where they stopped, with no more frames than the turn is likely to pay for.
//!
//! Time is measured only if there are several ports, and seldom while no port overdraws and rounds are short.

use super::input::Input;
use crate::clock::Cycles;
use crate::queue_id::QueueId;
use packet::MAX_BURST;
use std::collections::HashMap;
use std::time::Duration;

/// Default time of a turn: a full burst of frames that take 600 nanoseconds each. Frames copied between guests take less.
pub(super) const TURN: Duration = Duration::from_micros(20);

/// Bursts of a turn: a port with many queues has no more.
const BURSTS: usize = 4;

/// Time that a burst counts for at most, and that a turn has while only one port has frames. If a burst took longer, the worker probably
/// had no processor meanwhile.
const LONGEST: Duration = Duration::from_millis(2);

/// Part of a turn by which it grows in a round in which only one port has frames, or none has more than it gets.
const GROWTH: u64 = 8;

/// Rounds in which no port overdraws before most rounds are not measured.
const CALM: u32 = 64;

/// Rounds that are not measured between two that are.
const SELDOM: u32 = 16;

/// Turns of the ports of a worker.
pub(super) struct Turns {
    /// Ports of the plan's inputs, and others that were, with what they owe.
    ports: Vec<Account>,
    away: HashMap<u64, Account>,
    /// The plan's inputs in the order of a measured round: those of a port together, the one that waited longest first.
    order: Vec<QueueTurn>,
    /// Cycles of a turn while ports compete, and of [`LONGEST`].
    turn: u64,
    longest: u64,
    /// Cycles of a turn now.
    granted: u64,
    /// Whether this round is measured.
    is_measured: bool,
    /// Measured rounds in a row in which no port overdrew.
    calm: u32,
    /// Rounds until the next one that is measured. None is if there is only one port.
    skip: u32,
    has_several: bool,
    /// Whether a port has more queues than bursts in a turn: a single round without limits would cost too much.
    has_many: bool,
    /// When the round began, and the cycles of one in which no port overdraws.
    began: u64,
    round: u64,
    current: Option<Current>,
}

/// An input in the order of turns.
struct QueueTurn {
    input: usize,
    /// Index of its port, and of the queue in it.
    port: usize,
    queue: usize,
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
    /// Whether it may have more frames, and whether it was asked for less than a burst.
    is_full: bool,
    is_short: bool,
}

/// A port's share of a worker.
struct Account {
    /// Id of the port.
    id: u64,
    /// Its first place, and number of places.
    first: usize,
    places: usize,
    /// The queue that has its turn first.
    queue: usize,
    /// Cycles that are left of its turns; it waits if there are none.
    left: i64,
    /// Cycles that a frame took lately.
    frame: u64,
    /// Frames that are left of its turn.
    frames: usize,
    /// Whether it had any frames in this round.
    is_active: bool,
    /// Whether it may have more frames than it got in this round.
    has_more: bool,
    /// Whether a burst of this round was cut short to stay within the turn.
    was_short: bool,
    /// Its first place that waits.
    waits: Option<usize>,
}

impl Turns {
    pub(super) fn new(turn: Option<Duration>, cycles: &Cycles) -> Turns {
        Turns::of(cycles.per(turn.unwrap_or(TURN)), cycles.per(LONGEST))
    }

    fn of(turn: u64, longest: u64) -> Turns {
        let turn = turn.max(1);
        let longest = longest.max(turn);
        Turns {
            ports: Vec::new(),
            away: HashMap::new(),
            order: Vec::new(),
            turn,
            longest,
            granted: longest,
            is_measured: false,
            calm: 0,
            skip: 0,
            has_several: false,
            has_many: false,
            began: 0,
            round: u64::MAX,
            current: None,
        }
    }

    /// Takes over the inputs of a plan. Ports without any keep what they owe until [`Turns::forget`].
    pub(super) fn assign(&mut self, inputs: &[Input]) {
        self.assign_queues(inputs.iter().map(|input| input.route.from));
    }

    fn assign_queues(&mut self, inputs: impl Iterator<Item = QueueId>) {
        self.away.extend(self.ports.drain(..).map(|account| (account.id, account)));
        let mut numbers = HashMap::new();
        let mut number = |id: u64| {
            *numbers.entry(id).or_insert_with(|| {
                self.ports.push(self.away.remove(&id).unwrap_or_else(|| Account::new(id, self.granted)));
                self.ports.len() - 1
            })
        };
        let place = |(input, key): (usize, QueueId)| QueueTurn { input, port: number(key.port), queue: key.queue };
        self.order = inputs.enumerate().map(place).collect();
        self.order.sort_by_key(|place| place.port);
        for (index, account) in self.ports.iter_mut().enumerate() {
            account.first = self.order.partition_point(|place| place.port < index);
            account.places = self.order.partition_point(|place| place.port <= index) - account.first;
            let own = &mut self.order[account.first..][..account.places];
            own.rotate_left(own.iter().position(|place| place.queue == account.queue).unwrap_or(0));
            account.begin(false);
        }
        self.has_several = self.ports.len() > 1;
        self.has_many = self.ports.iter().any(|account| account.places > BURSTS);
        self.round = self.turn.saturating_mul(self.ports.len() as u64);
        self.is_measured &= self.has_several;
        self.current = None;
    }

    /// Forgets what ports owe that have no inputs, and will have none.
    pub(super) fn forget(&mut self, ports: &[u64]) {
        for port in ports {
            self.away.remove(port);
        }
    }

    /// Begins a round at `now`.
    #[inline(always)]
    pub(super) fn begin(&mut self, now: u64) {
        let last = now.wrapping_sub(std::mem::replace(&mut self.began, now));
        if self.skip == 0 || last > self.round {
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
        let QueueTurn { input, port, .. } = self.order[place];
        let account = &mut self.ports[port];
        if account.left <= 0 || account.frames == 0 {
            account.waits.get_or_insert(place);
            return None;
        }
        let frames = (account.left as u64 / account.frame.max(1)).clamp(1, MAX_BURST as u64) as usize;
        self.current = Some(Current { port, since: now, frames: 0, is_full: false, is_short: frames < MAX_BURST });
        Some(Turn { input, frames })
    }

    /// Notes the burst of the turn.
    pub(super) fn note(&mut self, frames: u64, is_full: bool) {
        if let Some(current) = &mut self.current {
            (current.frames, current.is_full) = (frames, is_full);
        }
    }

    /// Charges what the turn has taken until `now`.
    fn charge(&mut self, now: u64) {
        let Some(Current { port, since, frames, is_full, is_short }) = self.current.take() else { return };
        let took = now.wrapping_sub(since).min(self.longest);
        let account = &mut self.ports[port];
        account.left -= took as i64;
        if let Some(each) = took.checked_div(frames) {
            account.frame = (3 * account.frame + each) / 4;
            account.frames = account.frames.saturating_sub(frames as usize);
            account.has_more |= is_full;
            account.was_short |= is_full && is_short;
            account.is_active = true;
        }
    }

    /// Ends a measured round, and gives each port its next turn.
    #[inline(never)]
    pub(super) fn end(&mut self, now: u64) {
        self.charge(now);
        let wants = |account: &Account| account.has_more || account.waits.is_some();
        let busy = self.ports.iter().filter(|account| account.is_active || account.waits.is_some()).count();
        let compete = busy > 1 && self.ports.iter().any(wants);
        // It grows slowly: who competes only now and then waits for that long.
        self.granted =
            if compete { self.turn } else { (self.granted + self.granted.div_ceil(GROWTH)).min(self.longest) };
        let mut is_calm = true;
        for account in &mut self.ports {
            is_calm &= account.waits.is_none() && account.left > 0 && !account.was_short;
            if let Some(place) = account.waits {
                self.order[account.first..][..account.places].rotate_left(place - account.first);
                account.queue = self.order[account.first].queue;
            }
            account.left = account.left.saturating_add_unsigned(self.granted).min(self.granted as i64);
            account.begin(compete);
        }
        self.calm = if is_calm { (self.calm + 1).min(CALM) } else { 0 };
        if self.calm == CALM && !self.has_many {
            (self.is_measured, self.skip) = (false, SELDOM);
        }
    }
}

impl Account {
    fn new(id: u64, left: u64) -> Account {
        Account {
            id,
            first: 0,
            places: 0,
            queue: 0,
            left: left as i64,
            frame: 0,
            frames: usize::MAX,
            is_active: false,
            has_more: false,
            was_short: false,
            waits: None,
        }
    }

    /// Begins a round, in which ports compete or not.
    fn begin(&mut self, compete: bool) {
        self.frames = if compete { BURSTS * MAX_BURST } else { usize::MAX };
        (self.is_active, self.has_more, self.was_short) = (false, false, false);
        self.waits = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycles of a turn, of the longest turn, and of a burst of the cheapest frames.
    const TURN: u64 = 6400;
    const LONGEST: u64 = 2_000_000;
    const BURST: u64 = 32 * 50;

    /// A queue: the cycles that a frame costs, and those between two frames; there are always frames if `None`.
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
        fn new(loads: &[Load]) -> Rig {
            let mut turns = Turns::of(TURN, LONGEST);
            turns.assign_queues(Rig::keys(loads));
            let none = vec![0; loads.len()];
            Rig { turns, loads: loads.to_vec(), now: 0, measured: 0, served: none.clone(), waited: none }
        }

        fn keys(loads: &[Load]) -> impl Iterator<Item = QueueId> {
            loads.iter().enumerate().map(|(queue, load)| QueueId::new(load.port, queue))
        }

        /// Runs for this number of cycles; returns how many frames of each queue were forwarded meanwhile.
        fn run(&mut self, cycles: u64) -> Vec<u64> {
            let (end, before) = (self.now + cycles, self.served.clone());
            while self.now < end {
                self.now += 20;
                self.turns.begin(self.now);
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
        let mut rig = Rig::new(&[&[busy(7, 50)][..], &[busy(8, 50); 64]].concat());
        let served = rig.run(100_000_000);
        let (one, many) = (served[0], served[1..].iter().sum::<u64>());
        assert!((3 * one..5 * one).contains(&many), "{one} {many}");
        let (least, most) = (served[1..].iter().min().unwrap(), served[1..].iter().max().unwrap());
        assert!(most - least <= most / 10, "{served:?}");
    }

    #[test]
    fn dear_frames_take_a_turn_and_no_more() {
        for cost in [500, 2000, 20_000, 200_000] {
            let mut rig = Rig::new(&[busy(1, 50), busy(2, cost)]);
            rig.run(10_000_000);
            let times = rig.times(1_000_000_000);
            // In each round, the cheap port has a burst.
            let share = times[&2] as f64 / (times[&1] / BURST) as f64 / TURN as f64;
            assert!((0.8..1.1).contains(&share), "{cost}: {share} {times:?}");
        }
    }

    #[test]
    fn ports_whose_bursts_are_dear_have_equal_times() {
        let mut rig = Rig::new(&[busy(1, 1000), busy(2, 30_000), busy(3, 1000)]);
        let times = rig.times(1_000_000_000);
        assert!(times.values().all(|time| time.abs_diff(times[&1]) < times[&1] / 5), "{times:?}");
    }

    #[test]
    fn ports_send_equal_numbers_of_frames_while_none_overdraws() {
        let mut rig = Rig::new(&[busy(1, 10), busy(2, 180), busy(3, 60)]);
        let served = rig.run(10_000_000);
        assert!(served.iter().all(|frames| frames.abs_diff(served[0]) <= MAX_BURST as u64), "{served:?}");
    }

    #[test]
    fn a_port_that_sends_less_than_its_share_has_short_waits() {
        // A frame in 500 cycles, and 50 for each: a tenth of the time.
        let moderate = Load { port: 1, cost: 50, every: Some(500) };
        let mut rig = Rig::new(&[moderate, busy(2, 20_000)]);
        rig.run(10_000_000);
        rig.waited[0] = 0;
        rig.run(100_000_000);
        assert!(rig.waited[0] < 256, "a ring would overflow: {}", rig.waited[0]);
        assert!(rig.served[0] > rig.now / 500 - 256, "{:?}", rig.served);
    }

    #[test]
    fn a_busy_port_alone_waits_for_nobody() {
        let idle = Load { port: 1, cost: 50, every: Some(1 << 40) };
        let mut rig = Rig::new(&[idle, busy(2, 20_000), idle]);
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
    fn idle_ports_neither_compete_nor_wait() {
        let idle = |port| Load { port, cost: 50, every: Some(1 << 40) };
        let mut rig = Rig::new(&[idle(1), busy(2, 20_000), idle(3), idle(4)]);
        rig.run(1000 * LONGEST);
        let before = rig.served[1];
        let cycles = 1000 * LONGEST;
        rig.run(cycles);
        assert!(rig.served[1] - before >= cycles / 20_000 * 98 / 100, "{:?}", rig.served);
        assert!(rig.turns.ports.iter().filter(|account| account.id != 2).all(|account| account.left > 0));
    }

    #[test]
    fn a_port_that_never_fills_a_burst_competes_too() {
        // Eight frames at a time, the next ones some time after the last.
        let window = Load { port: 1, cost: 50, every: Some(2000) };
        let mut rig = Rig::new(&[window, busy(2, 5000)]);
        rig.run(10_000_000);
        rig.waited[0] = 0;
        rig.run(100_000_000);
        assert!(rig.waited[0] < MAX_BURST as u64, "{:?}", rig.waited);
    }

    #[test]
    fn a_long_round_is_not_followed_by_others_that_nobody_measures() {
        let mut rig = Rig::new(&[busy(1, 50), Load { port: 2, cost: 20_000, every: Some(1 << 40) }]);
        rig.run(10_000_000);
        assert_eq!(rig.turns.calm, CALM);
        rig.loads[1].every = None;
        rig.served[1] = 0;
        let began = rig.served[0];
        rig.run(100 * LONGEST);
        // One round may be long; after it the other port pays.
        let share = (rig.served[1] * 20_000) as f64 / ((rig.served[0] - began) / 32) as f64 / TURN as f64;
        assert!(share < 1.2, "{share}");
    }

    #[test]
    fn a_turn_of_no_time_still_is_one() {
        let mut rig = Rig::new(&[]);
        rig.turns = Turns::of(0, LONGEST);
        rig.loads = vec![busy(1, 50), busy(2, 50)];
        (rig.served, rig.waited) = (vec![0; 2], vec![0; 2]);
        rig.turns.assign_queues(Rig::keys(&rig.loads));
        assert!(rig.run(1_000_000).iter().all(|served| *served > 100));
    }

    #[test]
    fn a_queue_that_starts_again_owes_what_it_owed() {
        let mut rig = Rig::new(&[busy(1, 50), busy(2, 60_000)]);
        rig.run(10_000_000);
        let owed = rig.turns.ports[1].left;
        let ports = |ports: &[u64]| ports.iter().map(|&port| QueueId::new(port, 0)).collect::<Vec<_>>().into_iter();
        rig.turns.assign_queues(ports(&[1]));
        rig.turns.assign_queues(ports(&[2, 1]));
        let turn = rig.turns.ports.iter().find(|turn| turn.id == 2).unwrap();
        assert_eq!(turn.left, owed);
        rig.turns.assign_queues(ports(&[1, 3]));
        rig.turns.forget(&[2]);
        assert!(rig.turns.away.is_empty() && rig.turns.ports.iter().all(|turn| turn.id != 2));
    }

    #[test]
    fn rounds_are_measured_seldom_while_nobody_takes_too_much() {
        let mut rig = Rig::new(&[busy(1, 50), busy(2, 50)]);
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
        let mut rig = Rig::new(&[busy(1, 50), busy(2, 50)]);
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
