//! Workers: threads that run a plan to completion, round after round, and take new ones in between.

mod by_hand;
mod idle;
mod plan;

pub use by_hand::ByHand;
pub(crate) use plan::{Input, Plan};

use crate::clock::Cycles;
use crate::counters::Counter;
use crate::handover::Mailbox;
use crate::spec::{Idle, WorkerSpec};
use idle::{Rest, Sleeper};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

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
}

type Job = Box<dyn FnOnce(&mut Plan) + Send>;

/// A running worker, as the control side holds it.
pub(crate) struct Worker {
    mailbox: Arc<Mailbox<Job>>,
    wake: Arc<OwnedFd>,
    pub(crate) counters: Arc<WorkerCounters>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a worker on `cpu` with an empty plan. Says what it could not do: without its CPU it runs anywhere.
    pub(crate) fn spawn(index: usize, spec: &WorkerSpec) -> std::io::Result<Worker> {
        let WorkerSpec { cpu, idle, patience, .. } = *spec;
        let mailbox = Arc::new(Mailbox::new());
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let counters = Arc::new(WorkerCounters::default());
        let mut run = Run {
            mailbox: mailbox.clone(),
            counters: counters.clone(),
            sleeper: Sleeper::new(wake.clone())?,
            cycles: Cycles::new(),
            idle,
            patience,
        };
        let thread = std::thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
            if let Some(cpu) = cpu {
                pin(index, cpu);
            }
            run.run();
        })?;
        Ok(Worker { mailbox, wake, counters, thread: Some(thread) })
    }

    /// Runs `job` on the worker, between two bursts, and returns what it returns; `None` if the worker has gone.
    pub(crate) fn call<R: Send + 'static>(&self, job: impl FnOnce(&mut Plan) -> R + Send + 'static) -> Option<R> {
        let (done, result) = sync_channel(1);
        let job: Job = Box::new(move |plan| {
            let _ = done.send(job(plan));
        });
        self.mailbox.leave(job).ok()?;
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        result.recv().ok()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.call(|plan| plan.stop = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
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
    mailbox: Arc<Mailbox<Job>>,
    counters: Arc<WorkerCounters>,
    sleeper: Sleeper,
    cycles: Cycles,
    idle: Idle,
    patience: Option<Duration>,
}

impl Run {
    fn run(&mut self) {
        let mut plan = Plan::new(self.counters.clone(), self.cycles.clone());
        let mut rest = Rest::new(self.idle, self.patience, &self.cycles);
        let mut last = self.cycles.now();
        loop {
            if self.mailbox.is_waiting() {
                for job in self.mailbox.take() {
                    job(&mut plan);
                }
                if plan.stop {
                    break;
                }
                self.sleeper.watch(&plan);
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
                        if self.sleeper.sleep(&plan, || self.mailbox.is_waiting()) {
                            self.counters.sleeps.add(1);
                        }
                        rest.woke(self.cycles.now());
                    }
                }
                last = self.cycles.now();
            }
        }
        // Nobody waits for a job that will not be done: dropping it says so.
        drop(self.mailbox.close());
    }
}
