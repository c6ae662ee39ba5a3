//! Workers: threads that run a plan to completion, round after round, and take new ones in between.

mod by_hand;
mod change;
mod idle;
mod place;
mod plan;
mod pulse;

pub use by_hand::ByHand;
pub(crate) use change::Pieces;
pub(crate) use place::{Place, Stage};
pub(crate) use plan::{Input, Plan};
pub(crate) use pulse::{Answer, Change, Pulse, STILL, Unresponsive};

use crate::clock::Cycles;
use crate::counters::Counter;
use crate::drops::{Drops, Reason};
use crate::forward::flows::Emission;
use crate::handover::Mailbox;
use crate::spec::{Idle, WorkerSpec};
use idle::{Rest, Sleeper};
use place::Whereabouts;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use virtqueue::MAX_BURST;

/// Stages of a burst's life whose cycles are sampled.
pub const STAGES: [&str; 3] = ["receive", "forward", "recycle"];

/// What a worker counts.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerCounters {
    /// Cycles of rounds that moved something.
    pub busy: Counter,
    /// Cycles of rounds that did not.
    pub idle: Counter,
    /// Rounds that moved something.
    pub rounds: Counter,
    /// Times it went to sleep.
    pub sleeps: Counter,
    /// Frames received.
    pub packets: Counter,
    /// Cycles of each of [`STAGES`] in the bursts that were sampled.
    pub stages: [Counter; STAGES.len()],
    /// Frames in them.
    pub sampled: Counter,
    /// Where it is.
    pub(crate) place: Whereabouts,
}

type Job = Box<dyn FnOnce(&mut Plan) + Send>;

/// Packets of controllers that may wait for a worker.
const OUTBOX: usize = 512;

/// A running worker, as the control side holds it.
pub(crate) struct Worker {
    jobs: Arc<Mailbox<Job>>,
    outbox: Arc<Mailbox<Emission>>,
    wake: Arc<OwnedFd>,
    pub(crate) pulse: Arc<Pulse>,
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a worker on `cpu` with an empty plan. Says what it could not do: without its CPU it runs anywhere. Packets of
    /// controllers that it does not send, it counts in `unsent`.
    pub(crate) fn spawn(index: usize, spec: &WorkerSpec, unsent: &Arc<Drops>) -> std::io::Result<Worker> {
        let WorkerSpec { cpu, idle, patience, .. } = *spec;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let sleeper = if idle == Idle::Sleep { Some(Sleeper::new(&wake)?) } else { None };
        let counters = Arc::new(WorkerCounters::default());
        let (jobs, outbox) = (Arc::new(Mailbox::new(usize::MAX)), Arc::new(Mailbox::new(OUTBOX)));
        let mut run = Run {
            jobs: jobs.clone(),
            outbox: outbox.clone(),
            unsent: unsent.clone(),
            counters: counters.clone(),
            cycles: Cycles::new(),
            idle,
            patience,
        };
        let (end, ended) = sync_channel(1);
        let thread = std::thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
            if let Some(cpu) = cpu {
                pin(index, cpu);
            }
            run.run(sleeper);
            let _ = end.send(());
        })?;
        let pulse = Arc::new(Pulse::new(index, counters));
        Ok(Worker { jobs, outbox, wake, pulse, ended, thread: Some(thread) })
    }

    /// Ends its sleep, if it sleeps.
    fn wake(&self) {
        // A full counter is as good as rung. Nobody else has this eventfd, so it stays one that never blocks.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Has `job` run by the worker, between two bursts, after all that it was asked before.
    pub(crate) fn ask<R: Send + 'static>(&self, job: impl FnOnce(&mut Plan) -> R + Send + 'static) -> Answer<R> {
        let (done, result) = sync_channel(1);
        let job: Job = Box::new(move |plan| {
            let _ = done.send(job(plan));
        });
        // Of a job that is given back, nobody hears anything.
        if self.jobs.leave(job).is_ok() {
            self.wake();
        }
        Answer { pulse: self.pulse.clone(), result }
    }

    /// As [`Worker::ask`], for a job that a worker which was given up does not get.
    pub(crate) fn offer(&self, job: impl FnOnce(&mut Plan) + Send + 'static) -> Result<Answer<()>, Unresponsive> {
        if self.pulse.is_given_up() { Err(Unresponsive(self.pulse.index)) } else { Ok(self.ask(job)) }
    }

    /// Has the worker send a packet of a controller, soon; false if too many wait already.
    pub(crate) fn emit(&self, emission: Emission) -> bool {
        let left = self.outbox.leave(emission).is_ok();
        self.wake();
        left
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.ask(|plan| plan.stop = true));
        match self.pulse.wait(&self.ended) {
            Ok(()) => drop(self.thread.take().map(JoinHandle::join)),
            // What it uses stays, because it has it.
            Err(unresponsive) => tracing::error!("{unresponsive}; it is left behind"),
        }
    }
}

fn pin(index: usize, cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::warn!("worker {index} can't be pinned to CPU {cpu}, and runs on any: {error}");
    }
}

/// A worker, as its thread holds it.
struct Run {
    jobs: Arc<Mailbox<Job>>,
    outbox: Arc<Mailbox<Emission>>,
    unsent: Arc<Drops>,
    counters: Arc<WorkerCounters>,
    cycles: Cycles,
    idle: Idle,
    patience: Option<Duration>,
}

impl Run {
    fn run(&mut self, sleeper: Option<Sleeper>) {
        let mut plan = Plan::new(self.counters.clone(), self.cycles.clone(), sleeper);
        let mut rest = Rest::new(self.idle, self.patience, &self.cycles);
        let mut last = self.cycles.now();
        loop {
            if self.is_called() {
                self.serve(&mut plan);
                if plan.stop {
                    break;
                }
                last = self.cycles.now();
            }
            let moved = plan.round(last);
            let now = self.cycles.now();
            if moved {
                self.counters.busy.add(now - last);
                self.counters.rounds.add(1);
                rest.worked(now);
                last = now;
                continue;
            }
            self.counters.idle.add(now - last);
            last = now;
            if rest.is_due(now) {
                match self.idle {
                    Idle::Poll => {}
                    Idle::Backoff => rest.pause(),
                    Idle::Sleep => {
                        if plan.sleep(|| self.is_called()) {
                            self.counters.sleeps.add(1);
                        }
                        rest.woke(self.cycles.now());
                    }
                }
                last = self.cycles.now();
            }
        }
        // Nobody waits for a job that will not be done: dropping it says so.
        drop(self.jobs.close());
        self.lose(self.outbox.close().len());
    }

    #[inline(always)]
    fn is_called(&self) -> bool {
        self.jobs.is_waiting() || self.outbox.is_waiting()
    }

    /// Does what the control side asks: all jobs, and a burst of controllers' packets. The rest of these has to wait until
    /// the queues had their turn.
    #[cold]
    fn serve(&self, plan: &mut Plan) {
        self.counters.place.set(Place::nowhere(Stage::Jobs));
        for job in self.jobs.take(usize::MAX) {
            job(plan);
        }
        if self.outbox.is_waiting() {
            let mut emissions = self.outbox.take(MAX_BURST);
            self.lose(plan.inject(emissions.make_contiguous(), &self.unsent));
        }
    }

    /// Counts packets of controllers that there is no bridge for.
    fn lose(&self, packets: usize) {
        if packets > 0 {
            self.unsent.add(Reason::Unconnected, packets as u64);
        }
    }
}
