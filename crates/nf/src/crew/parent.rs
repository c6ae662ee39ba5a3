//! Static role assignment: the parent talks to the devices, and the workers process.

use super::batch::{Batch, Devices};
use super::counters::ParentCounters;
use super::error::CrewError;
use super::options::{CrewOptions, ParentRole};
use super::own::Own;
use super::threads;
use super::view::{Verdict, View};
use super::worker::{self, Work};
use crate::cycles::Cycles;
use crate::port::{BURST, Ports};
use crate::run::{Idle, Rounds, RunError};
use handover::Parking;
use roles::{Outcome, share};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Batches that a parent that works receives in a round for each worker: one that the worker processes while the parent does, and
/// one for the time in which the parent receives and sends.
const BATCHES_AHEAD: u16 = 2;
/// Rounds between two checks for a worker that has stalled.
const LOOK_ROUNDS: u32 = 64;
/// Rounds in which the parent only waits for workers, before it lets others have the processor.
const WAITS: u32 = 64;
/// Pause while the parent waits for nothing but workers that have stalled.
const PAUSE: Duration = Duration::from_millis(1);

/// Runs a crew with a parent, which is the calling thread.
pub(super) fn run<W>(
    ports: &mut Ports,
    options: &CrewOptions,
    idle: Idle,
    stop: &AtomicBool,
    mut works: Vec<Work<'_, W>>,
    counters: &mut ParentCounters,
) -> Result<(), CrewError>
where
    W: FnMut(&mut View<'_>) -> Verdict + Send,
{
    let parking = Parking::new(works.len());
    let own = (options.parent == ParentRole::Works).then(|| works.remove(0));
    // The last worker is the parent's own.
    let (batches, mut workers) = share(options.room(), works.len() + 1, Batch::new);
    let own = Own::new(workers.pop().expect("one more than there are functions"), own);
    let devices = Devices::new(ports);
    let count = devices.count();
    let (first, visits) = if own.works() { (2, count.max(BATCHES_AHEAD * options.workers)) } else { (1, count) };
    let mut parent = Parent {
        batches,
        own,
        devices,
        parking: &parking,
        idle,
        patience: options.patience,
        visits,
        rounds: 0,
        waits: 0,
        front: None,
        has_lost_a_worker: false,
        counters,
        cycles: Cycles::new(),
    };
    let (cpu, cpus) = options.cpus.split_first().unzip();
    thread::scope(|scope| {
        // However this ends, workers end as well.
        let over = Over(&parking);
        let parking = &parking;
        let bodies = workers.into_iter().zip(works);
        let bodies = bodies.map(|(worker, work)| move || worker::run(worker, work, count, parking, idle));
        let workers = threads::start(scope, first, cpus.unwrap_or_default(), bodies)?;
        cpu.map_or(Ok(()), |&cpu| threads::pin(cpu))?;
        let outcome = parent.run(stop);
        parent.finish(|| workers.iter().all(|worker| worker.is_finished()));
        drop(over);
        threads::join(workers)?;
        parent.own.outcome()?;
        Ok(outcome?)
    })
}

/// Ends the workers when it is dropped.
struct Over<'p>(&'p Parking);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

struct Parent<'p, 'c, W> {
    batches: roles::Parent<Batch>,
    own: Own<'c, W>,
    devices: Devices<'p, Ports>,
    parking: &'p Parking,
    idle: Idle,
    patience: Duration,
    /// Ports that it polls in a round, at most: each once, or again if the parent works and some have more than a batch. It
    /// processes one batch of a round, and the others are for other workers: they continue while it receives and sends.
    visits: u16,
    rounds: u32,
    /// Rounds, one after the other, that only waited for workers.
    waits: u32,
    /// The oldest batch if a worker holds it, and since when it was seen there.
    front: Option<(u64, Instant)>,
    has_lost_a_worker: bool,
    counters: &'p mut ParentCounters,
    cycles: Cycles,
}

impl<W: FnMut(&mut View<'_>) -> Verdict> Parent<'_, '_, W> {
    /// Receives and sends until `stop` is set or a worker panics.
    fn run(&mut self, stop: &AtomicBool) -> Result<(), RunError> {
        let mut rounds = Rounds::new(self.idle);
        while !stop.load(Ordering::Relaxed) && !self.has_lost_a_worker {
            let received = self.receive();
            let processed = self.process_one();
            let released = self.release();
            self.wait(received + processed + released);
            let busy = received + released + self.waited_for();
            self.devices.end_round(&mut rounds, busy, stop)?;
        }
        Ok(())
    }

    /// Sends the received packets, and waits for all workers; `are_finished` reports whether all have panicked.
    fn finish(&mut self, are_finished: impl Fn() -> bool) {
        while self.batches.outstanding() > 0 || self.devices.has_rest() {
            while self.devices.has_rest() && self.publish().is_some() {}
            let processed = self.process_one();
            let released = self.release();
            self.wait(processed + released);
            if !self.own.works() && are_finished() {
                // No worker is left to claim them.
                self.own.abandon_all();
            }
            if self.waited_for() == 0 && self.batches.outstanding() > 0 {
                thread::sleep(PAUSE);
            }
        }
    }

    /// Returns the number of batches that are published, and neither released nor left behind.
    #[inline]
    fn waited_for(&self) -> usize {
        self.batches.outstanding() - self.batches.left_behind()
    }

    /// Publishes batches for the ports that have received frames; returns their number.
    #[inline]
    fn receive(&mut self) -> usize {
        let start = self.cycles.now();
        let count = self.devices.count();
        let (mut visits, mut emptied, mut received, mut frames) = (0, 0, 0, 0);
        while visits < self.visits && emptied < count {
            let Some(packets) = self.publish() else { break };
            received += usize::from(packets > 0);
            frames += packets;
            if !self.devices.has_rest() {
                visits += 1;
                emptied += u16::from(packets < BURST);
            }
        }
        if received > 0 {
            self.counters.received(frames, self.cycles.now().wrapping_sub(start));
        }
        received
    }

    /// Publishes a batch of received packets; returns their number, or `None` if no batch is free.
    #[inline]
    fn publish(&mut self) -> Option<usize> {
        let mut batch = self.batches.free()?;
        let packets = self.devices.receive(&mut batch);
        if packets > 0 {
            batch.publish();
            self.parking.wake(self.batches.outstanding());
            self.counters.batches += 1;
            self.counters.packets += packets as u64;
        }
        Some(packets)
    }

    /// If the parent works, processes a batch; returns the number of batches. One at a time, so that the devices are served in
    /// between.
    #[inline]
    fn process_one(&mut self) -> usize {
        usize::from(self.own.process_one(self.devices.count(), &self.cycles))
    }

    /// Sends the batches that workers have completed, in order; returns the number of batches that came back.
    #[inline]
    fn release(&mut self) -> usize {
        let start = self.cycles.now();
        let Self { batches, devices, has_lost_a_worker, .. } = self;
        let mut packets = 0;
        let released = batches.release(|batch, outcome| {
            packets += batch.len();
            match outcome {
                Outcome::Complete => devices.send(batch),
                Outcome::Late => devices.discard(batch, "worker-stalled"),
                Outcome::Abandoned => {
                    *has_lost_a_worker = true;
                    devices.discard(batch, "worker-panicked");
                }
            }
        });
        if released > 0 {
            devices.flush();
            self.counters.sent(packets, self.cycles.now().wrapping_sub(start));
        }
        released
    }

    /// Ends a round in which `moved` batches came or went: looks for a worker that has stalled, and gives up the processor
    /// while there is nothing to do but to wait for workers.
    #[inline]
    fn wait(&mut self, moved: usize) {
        self.rounds += 1;
        if self.rounds >= LOOK_ROUNDS {
            self.rounds = 0;
            self.look();
        }
        if moved > 0 || self.waited_for() == 0 {
            self.waits = 0;
        } else if self.idle.is_due(self.waits, WAITS) {
            thread::yield_now();
        } else {
            self.waits = self.waits.saturating_add(1);
            std::hint::spin_loop();
        }
    }

    /// Leaves the oldest batch behind if a worker has held it for too long.
    fn look(&mut self) {
        let Some(oldest) = self.batches.oldest() else { return self.front = None };
        match self.front {
            Some((front, since)) if front == oldest => {
                if since.elapsed() >= self.patience {
                    self.batches.leave_behind();
                    self.front = None;
                }
            }
            _ => self.front = Some((oldest, Instant::now())),
        }
    }
}
