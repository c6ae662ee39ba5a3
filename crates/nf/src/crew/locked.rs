//! A shared queue under a lock: workers take turns at the ports.

use super::batch::{Batch, Devices};
use super::error::CrewError;
use super::options::CrewOptions;
use super::threads;
use super::view::{Verdict, View};
use super::worker::Work;
use crate::cycles::Cycles;
use crate::port::Ports;
use crate::run::{Idle, Rounds, RunError};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;

/// Vain turns, one after the other, before a worker lets others have the processor.
const VAIN: u32 = 64;

/// The state that workers share under the lock.
struct Turns<'p> {
    devices: Devices<'p, Ports>,
    rounds: Rounds,
    /// Workers that process a batch.
    busy: usize,
    /// When a worker last found no frames, in cycles.
    vain_at: u64,
    /// Set when a worker panics.
    is_over: bool,
    outcome: Result<(), RunError>,
}

impl Turns<'_> {
    /// Fills a batch from the next port that has frames; returns its length. Rests if no port has any and no worker is busy.
    fn receive(&mut self, batch: &mut Batch, stop: &AtomicBool) -> usize {
        let mut received = 0;
        for _ in 0..self.devices.count() {
            received = self.devices.receive(batch);
            if received > 0 {
                break;
            }
        }
        // A worker that is busy needs the ports soon.
        let outcome = self.devices.end_round(&mut self.rounds, received + self.busy, stop);
        if outcome.is_err() {
            (self.is_over, self.outcome) = (true, outcome);
        }
        self.busy += usize::from(received > 0);
        received
    }
}

/// Runs a crew without a parent.
pub(super) fn run<W>(
    ports: &mut Ports,
    options: &CrewOptions,
    idle: Idle,
    stop: &AtomicBool,
    works: Vec<Work<'_, W>>,
) -> Result<(), CrewError>
where
    W: FnMut(&mut View<'_>) -> Verdict + Send,
{
    let devices = Devices::new(ports);
    let count = devices.count();
    let turns = Turns { devices, rounds: Rounds::new(idle), busy: 0, vain_at: 0, is_over: false, outcome: Ok(()) };
    let turns = Mutex::new(turns);
    thread::scope(|scope| {
        let turns = &turns;
        let bodies = works.into_iter().map(|work| move || work_in_turns(work, count, turns, idle, stop));
        let outcome = match threads::start(scope, 1, &options.cpus, bodies) {
            Ok(workers) => threads::join(workers),
            Err(error) => {
                lock(turns).is_over = true;
                Err(error)
            }
        };
        // There is a rest only if a worker has panicked.
        lock(turns).devices.discard_rest("worker-panicked");
        outcome
    })?;
    Ok(turns.into_inner().expect(UNPOISONED).outcome?)
}

/// Why a lock is not poisoned.
const UNPOISONED: &str = "no function of a worker runs with the lock";

fn lock<'t, 'p>(turns: &'t Mutex<Turns<'p>>) -> MutexGuard<'t, Turns<'p>> {
    turns.lock().expect(UNPOISONED)
}

/// Receives, processes and sends batches until `stop` is set, or a worker panics.
fn work_in_turns<W: FnMut(&mut View<'_>) -> Verdict>(
    mut work: Work<'_, W>,
    ports: u16,
    turns: &Mutex<Turns<'_>>,
    idle: Idle,
    stop: &AtomicBool,
) {
    let cycles = Cycles::new();
    let mut batch = Batch::new();
    let mut vain = 0;
    loop {
        let start = cycles.now();
        let mut turn = lock(turns);
        if turn.is_over || stop.load(Ordering::Relaxed) && !turn.devices.has_rest() {
            break;
        }
        let received = turn.receive(&mut batch, stop);
        // Cycles spent waiting before there were frames are not the cost of a batch.
        let start = start.max(turn.vain_at);
        if received == 0 {
            turn.vain_at = cycles.now();
        }
        drop(turn);
        if received == 0 {
            if idle.is_due(vain, VAIN) {
                thread::yield_now();
            } else {
                vain += 1;
                std::hint::spin_loop();
            }
            continue;
        }
        vain = 0;
        let claimed = cycles.now();
        let outcome = catch_unwind(AssertUnwindSafe(|| batch.process(ports, &mut work.function)));
        let processed = cycles.now();
        let mut turn = lock(turns);
        turn.busy -= 1;
        if let Err(payload) = outcome {
            turn.devices.discard(&mut batch, "worker-panicked");
            turn.is_over = true;
            drop(turn);
            resume_unwind(payload);
        }
        turn.devices.send(&mut batch);
        turn.devices.flush();
        drop(turn);
        work.counters.add(received, [start, claimed, processed, cycles.now()]);
    }
}
