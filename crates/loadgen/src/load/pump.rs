//! The loop over all ports, with its accounting.

use super::fixed_ring::Misused;
use super::frame::Touch;
use super::port::Port;
use super::sequence::Counts;
use crate::cycles;

/// Rounds without a frame after which devices that may sleep are kicked.
const KICK_ROUNDS: u64 = 64;

/// Error that ends a run early.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum PumpError {
    #[error("port {port}: {source}")]
    Order { port: usize, source: Misused },
    #[error("the switch closed the connection")]
    Disconnected,
}

/// Accounting of the time. A round visits every port once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Rounds that moved a frame.
    pub busy_rounds: u64,
    /// Their cycles.
    pub busy_cycles: u64,
    /// Rounds that found nothing to do.
    pub idle_rounds: u64,
    /// Their cycles.
    pub idle_cycles: u64,
}

impl Tally {
    /// Counts a round.
    #[inline(always)]
    pub fn count(&mut self, busy: bool, cycles: u64) {
        let (rounds, sum) = if busy {
            (&mut self.busy_rounds, &mut self.busy_cycles)
        } else {
            (&mut self.idle_rounds, &mut self.idle_cycles)
        };
        *rounds += 1;
        *sum += cycles;
    }
}

/// Pairs of ports that send to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Ports 0 and 1 are each other's peers, as are 2 and 3; a single port is its own.
    Pairs,
    /// The first port and the last one are each other's peers. Between them are functions of two ports each, which pass frames on.
    Chain,
}

impl Topology {
    /// Returns the port that receives the frames of `port`; `None` if it is a port of a function that passes frames on.
    pub fn peer(self, port: usize, ports: usize) -> Option<usize> {
        match self {
            Topology::Pairs => Some(if ports == 1 { 0 } else { port ^ 1 }),
            Topology::Chain => (port == 0 || port + 1 == ports).then(|| ports - 1 - port),
        }
    }

    /// Returns the ports of each function.
    pub fn functions(self, ports: usize) -> Vec<Vec<usize>> {
        let all: Vec<usize> = (0..ports).collect();
        match self {
            Topology::Pairs => all.chunks(1).map(<[usize]>::to_vec).collect(),
            Topology::Chain => all.chunk_by(|_, next| next % 2 == 0).map(<[usize]>::to_vec).collect(),
        }
    }
}

/// The driver of all ports.
pub struct Pump<'a> {
    ports: Vec<Port>,
    topology: Topology,
    window: u64,
    /// Cycles without any frame after which those in flight are given up.
    patience: u64,
    alive: &'a dyn Fn() -> bool,
    tally: Tally,
}

impl<'a> Pump<'a> {
    /// Creates a pump. At most `window` frames are in flight in each direction. `alive` reports whether all switches are still
    /// there.
    pub fn new(
        ports: Vec<Port>,
        topology: Topology,
        window: u64,
        patience: u64,
        alive: &'a dyn Fn() -> bool,
    ) -> Pump<'a> {
        Pump { ports, topology, window, patience, alive, tally: Tally::default() }
    }

    /// Returns the port that receives the frames of `port`, if it sends any of its own.
    #[inline(always)]
    fn peer(&self, port: usize) -> Option<usize> {
        self.topology.peer(port, self.ports.len())
    }

    /// Runs for about `duration` cycles.
    pub fn run<T: Touch>(&mut self, duration: u64) -> Result<(), PumpError> {
        let start = cycles::now();
        let mut last = start;
        let mut last_moved = start;
        let mut idle_rounds = 0;
        while last.wrapping_sub(start) < duration {
            let moved = self.round::<T>()?;
            let now = cycles::now();
            self.tally.count(moved > 0, now.wrapping_sub(last));
            if moved > 0 {
                last_moved = now;
                idle_rounds = 0;
            } else {
                idle_rounds += 1;
                if idle_rounds % KICK_ROUNDS == 0 {
                    self.wait(now.wrapping_sub(last_moved) > self.patience)?;
                }
                std::hint::spin_loop();
            }
            last = now;
        }
        Ok(())
    }

    /// Does the same; reports whether every port has received a frame by then. Counts frames to a port that has received none
    /// as lost: ports come up one after the other, and frames that the switch drops until all are up must not block a direction
    /// forever.
    pub fn begin<T: Touch>(&mut self, duration: u64) -> Result<bool, PumpError> {
        self.run::<T>(duration)?;
        let silent = |port: &usize| self.peer(*port).is_some() && self.ports[*port].counts().received == 0;
        let silent: Vec<usize> = (0..self.ports.len()).filter(silent).collect();
        silent.iter().for_each(|&port| self.give_up(port));
        Ok(silent.is_empty())
    }

    /// Runs until no frame is under way that [`Self::begin`] gave up, or that was sent beside such frames, beyond the window. In slices of
    /// about `slice` cycles, while `may_wait`; reports whether it came to that.
    ///
    /// A slow switch may deliver such frames after all, or have no room for the others: neither is its fault, so nothing may be measured
    /// before. Frames keep their order: when one arrives, no earlier one will.
    pub fn settle<T: Touch>(&mut self, slice: u64, may_wait: impl Fn() -> bool) -> Result<bool, PumpError> {
        // First those that were given up, then those that were sent until these had come.
        for _ in 0..2 {
            let sent: Vec<u64> = self.ports.iter().map(Port::sent).collect();
            while !self.has_passed(&sent) {
                if !may_wait() {
                    return Ok(false);
                }
                self.run::<T>(slice)?;
            }
        }
        Ok(true)
    }

    /// Reports whether a frame has arrived from every port after it had sent this many.
    fn has_passed(&self, sent: &[u64]) -> bool {
        let passed = |port: usize| self.peer(port).is_none_or(|peer| self.ports[port].arrived() > sent[peer]);
        (0..self.ports.len()).all(passed)
    }

    #[inline(always)]
    fn round<T: Touch>(&mut self) -> Result<u64, PumpError> {
        let mut moved = 0;
        for port in 0..self.ports.len() {
            let broken = |source| PumpError::Order { port, source };
            let Some(peer) = self.peer(port) else {
                if let [from, to, ..] = &mut self.ports[port..]
                    && port % 2 == 1
                {
                    moved += from.pass_on::<T>(to).map_err(broken)? + to.pass_on::<T>(from).map_err(broken)?;
                }
                continue;
            };
            moved += self.ports[port].receive::<T>().map_err(broken)?;
            let arrived = self.ports[peer].arrived();
            let in_flight = self.ports[port].sent().saturating_sub(arrived);
            moved += self.ports[port].send::<T>(self.window.saturating_sub(in_flight)).map_err(broken)?;
        }
        Ok(moved)
    }

    /// Handles a pause without any frame.
    #[cold]
    fn wait(&mut self, give_up: bool) -> Result<(), PumpError> {
        if !(self.alive)() {
            return Err(PumpError::Disconnected);
        }
        for port in 0..self.ports.len() {
            self.ports[port].kick();
            if give_up {
                self.give_up(port);
            }
        }
        Ok(())
    }

    /// Counts all frames in flight to this port as lost.
    fn give_up(&mut self, port: usize) {
        if let Some(peer) = self.peer(port) {
            let sent = self.ports[peer].sent();
            self.ports[port].sequence().give_up(sent);
        }
    }

    /// Returns every port's counters.
    pub fn counts(&self) -> Vec<Counts> {
        self.ports.iter().map(Port::counts).collect()
    }

    /// Returns the accounting of the time.
    pub fn tally(&self) -> Tally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixed_ring::FixedRing;
    use super::super::frame::{Header, Nothing, Payload, Shape};
    use super::super::port::Side;
    use super::*;
    use nf::memory::Buffers;
    use packet::BurstStorage;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};
    use virtqueue::device::{Dequeue, Enqueue};
    use virtqueue::driver::Queue;
    use virtqueue::memory::Arena;
    use virtqueue::{NET_HEADER, Negotiated, features};

    const SIZE: u16 = 300;

    fn port(index: usize, features: u64) -> (Port, (Dequeue, Enqueue)) {
        let mut arena = Arena::new(2 << 20, false).unwrap();
        let mut side = |len: u32, writable| {
            let config = Queue::layout(&mut arena, 256, Negotiated(features::VERSION_1 | features)).unwrap();
            Queue::new(&arena, &config).unwrap();
            let buffers = std::sync::Arc::new(Buffers::allocate(&mut arena, 256, 2048).unwrap());
            let ring = FixedRing::new(&arena, &config, (&buffers, (0..256).collect()), len, writable);
            (Side { ring, kick: vhost_user::Event::create().unwrap() }, config)
        };
        let (receive, to) = side(2048, true);
        let (transmit, from) = side(NET_HEADER + u32::from(SIZE), false);
        let from = Dequeue::new(arena.memory().clone(), &from).unwrap();
        let to = Enqueue::new(arena.memory().clone(), &to).unwrap();
        let (out, back) = (Shape::new(index, 1 - index, SIZE), Shape::new(1 - index, index, SIZE));
        (Port::new(receive, transmit, out, back), (from, to))
    }

    /// Runs a switch between two ports, which forwards the frames that `keep` accepts.
    fn switch(ends: [(Dequeue, Enqueue); 2], mut keep: impl FnMut(usize) -> bool, stop: &AtomicBool) {
        let mut storage = BurstStorage::default();
        while !stop.load(Ordering::Relaxed) {
            for from in 0..2 {
                let mut burst = storage.start();
                ends[from].0.receive(&mut burst).unwrap();
                burst.retain(|_, _| keep(from));
                ends[1 - from].1.transmit(burst.frames()).unwrap();
                ends[from].0.recycle();
            }
        }
    }

    /// Runs a pump; `patience` is the number of cycles after which a frame counts as lost.
    fn pump<T: Touch>(features: u64, lose: u64, patience: u64) -> Vec<Counts> {
        let ((a, a_ends), (b, b_ends)) = (port(0, features), port(1, features));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let mut seen = 0;
            let keep = move |_| {
                seen += 1;
                seen % lose != 0
            };
            let stop = &stop;
            scope.spawn(move || switch([a_ends, b_ends], keep, stop));
            let alive = || true;
            let mut pump = Pump::new(vec![a, b], Topology::Pairs, 256, patience, &alive);
            // More than a window, even if the switch is not scheduled for long.
            let enough = |pump: &Pump<'_>| pump.counts().iter().all(|counts| counts.received > 10_000);
            let began = Instant::now();
            let mut outcome = Ok(());
            while outcome.is_ok() && !enough(&pump) && began.elapsed() < Duration::from_secs(20) {
                outcome = pump.run::<T>(100_000_000);
            }
            stop.store(true, Ordering::Relaxed);
            outcome.unwrap();
            pump.counts()
        })
    }

    #[test]
    fn nothing_is_lost_or_changed() {
        for features in [0, features::RING_PACKED].map(|f| f | features::IN_ORDER | features::MRG_RXBUF) {
            let runs = [pump::<Nothing>, pump::<Header>, pump::<Payload>].map(|run| run(features, u64::MAX, u64::MAX));
            for counts in runs.concat() {
                assert!(counts.received > 10_000, "{counts:?}");
                assert_eq!((counts.corrupt, counts.lost, counts.late), (0, 0, 0));
            }
        }
    }

    #[test]
    fn functions_of_a_chain_pass_frames_on() {
        let ends = |topology: Topology, ports| (0..ports).map(|port| topology.peer(port, ports)).collect::<Vec<_>>();
        assert_eq!(ends(Topology::Chain, 4), [Some(3), None, None, Some(0)]);
        assert_eq!(Topology::Chain.functions(6), [vec![0], vec![1, 2], vec![3, 4], vec![5]]);
        assert_eq!((ends(Topology::Pairs, 2), ends(Topology::Pairs, 1)), (vec![Some(1), Some(0)], vec![Some(0)]));
        assert_eq!(Topology::Pairs.functions(2), [vec![0], vec![1]]);
    }

    #[test]
    fn a_direction_that_came_up_late_is_not_held_up() {
        let ((a, a_ends), (b, b_ends)) = (port(0, 0), port(1, 0));
        let stop = AtomicBool::new(false);
        let begun = std::thread::scope(|scope| {
            // All frames that may be in flight at once, in one direction.
            let mut lost = 0;
            let keep = move |from| {
                let keep = from == 1 || lost == 256;
                lost += u64::from(!keep);
                keep
            };
            let stop = &stop;
            scope.spawn(move || switch([a_ends, b_ends], keep, stop));
            let alive = || true;
            let mut pump = Pump::new(vec![a, b], Topology::Pairs, 256, u64::MAX, &alive);
            let began = Instant::now();
            let mut outcome = Ok(false);
            while matches!(outcome, Ok(false)) && began.elapsed() < Duration::from_secs(20) {
                outcome = pump.begin::<Header>(100_000_000);
            }
            stop.store(true, Ordering::Relaxed);
            outcome.unwrap()
        });
        assert!(begun);
    }

    #[test]
    fn what_a_slow_switch_does_to_the_first_frames_is_not_measured() {
        let ((a, a_ends), (b, b_ends)) = (port(0, 0), port(1, 0));
        let stop = AtomicBool::new(false);
        let alive = || true;
        let mut pump = Pump::new(vec![a, b], Topology::Pairs, 256, u64::MAX, &alive);
        // A window is sent and given up before the switch runs.
        (0..3).for_each(|_| assert!(!pump.begin::<Header>(1_000_000).unwrap()));
        let [before, after] = std::thread::scope(|scope| {
            scope.spawn(|| switch([a_ends, b_ends], |_| true, &stop));
            let began = Instant::now();
            let in_time = || began.elapsed() < Duration::from_secs(60);
            let mut run = || {
                while in_time() && !pump.begin::<Header>(1_000_000)? {}
                let settled = pump.settle::<Header>(1000, in_time)?;
                let before = pump.counts();
                let enough = |pump: &Pump<'_>| pump.counts().iter().all(|counts| counts.received > 10_000);
                while in_time() && !enough(&pump) {
                    pump.run::<Header>(1_000_000)?;
                }
                Ok::<_, PumpError>((settled && enough(&pump)).then(|| [before, pump.counts()]))
            };
            let outcome = run();
            stop.store(true, Ordering::Relaxed);
            outcome.unwrap().expect("it came to that in time")
        });
        for (before, after) in before.iter().zip(&after) {
            assert_eq!((after.corrupt, after.lost, after.late), (before.corrupt, before.lost, before.late));
            assert!(before.late > 0, "they came after all: {before:?}");
        }
    }

    #[test]
    fn losses_are_counted_and_do_not_stop_the_load() {
        // On a busy machine frames may be slow for long, and must not be given up.
        let counts = pump::<Header>(features::IN_ORDER, 100, 20_000_000_000);
        let (received, lost): (u64, u64) =
            (counts.iter().map(|c| c.received).sum(), counts.iter().map(|c| c.lost - c.late).sum());
        let share = lost as f64 / (received + lost) as f64;
        assert!((0.008..0.012).contains(&share), "{counts:?}");
    }
}
