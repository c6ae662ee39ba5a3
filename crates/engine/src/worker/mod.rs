//! Workers: threads that run a plan to completion, round after round, and accept changes in between.

#[cfg(feature = "analysis")]
mod by_hand;
mod change;
mod idle;
mod input;
mod parts;
mod plan;
mod pulse;
mod requests;
mod route;
mod settle;
mod shared;
mod sleeper;
#[cfg(test)]
mod tests;
mod turns;

#[cfg(feature = "analysis")]
pub use by_hand::{ByHand, InPlace, Role};
pub(crate) use change::{Change, Removed, Wires};
pub(crate) use input::{Input, OutputQueue};
pub(crate) use parts::{LaneInput, ParentInput};
pub(crate) use plan::Plan;
pub(crate) use pulse::{Answer, Life, Pulse, STILL, Unresponsive};
pub(crate) use route::Route;

use crate::clock::Cycles;
use crate::drops::{Drops, Reason};
use crate::forward::flows::Emission;
use crate::monitor::{Activity, Place, WorkerCounters};
use crate::spec::{Idle, WorkerSpec};
use handover::{Alarm, Mailbox};
use idle::Rest;
use packet::MAX_BURST;
use rustix::event::{EventfdFlags, eventfd};
use sleeper::Sleeper;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

type Job = Box<dyn FnOnce(&mut Plan) + Send>;

/// Maximum number of controllers' packets that wait for a worker.
const OUTBOX: usize = 512;

/// A running worker, as the control side sees it.
pub(crate) struct Worker {
    jobs: Arc<Mailbox<Job>>,
    outbox: Arc<Mailbox<Emission>>,
    wake: Arc<OwnedFd>,
    pub(crate) pulse: Arc<Pulse>,
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a worker on `cpu` with an empty plan. Logs a failure to pin it, and then runs it on any CPU. Counts
    /// packets of controllers that it does not send in `unsent`.
    pub(crate) fn spawn(index: usize, spec: &WorkerSpec, unsent: &Arc<Drops>) -> std::io::Result<Worker> {
        let WorkerSpec { cpu, idle, patience, turn, .. } = *spec;
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
            turn,
        };
        let (end, ended) = sync_channel(1);
        let pulse = Arc::new(Pulse::new(index, counters));
        let own = pulse.clone();
        let thread = std::thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
            if let Some(cpu) = cpu
                && let Err(error) = pin(cpu)
            {
                tracing::warn!("worker {index} can't be pinned to CPU {cpu}, and runs on any: {error}");
                own.unpin();
            }
            run.run(sleeper);
            let _ = end.send(());
        })?;
        Ok(Worker { jobs, outbox, wake, pulse, ended, thread: Some(thread) })
    }

    /// Wakes the worker if it sleeps.
    fn wake(&self) {
        // A full counter wakes it too. Nobody else has this eventfd, so it stays non-blocking.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Returns an alarm that wakes the worker.
    pub(crate) fn alarm(&self) -> Arc<Alarm> {
        Arc::new(Alarm::new(self.wake.clone()))
    }

    /// Makes the worker run `job`, between two bursts, after all earlier jobs.
    pub(crate) fn ask<R: Send + 'static>(&self, job: impl FnOnce(&mut Plan) -> R + Send + 'static) -> Answer<R> {
        #[cfg(test)]
        self.pulse.jobs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (done, result) = sync_channel(1);
        let job: Job = Box::new(move |plan| {
            let _ = done.send(job(plan));
        });
        // A refused job is dropped, so that the answer reports an unresponsive worker.
        if self.jobs.leave(job).is_ok() {
            self.wake();
        }
        Answer { pulse: self.pulse.clone(), result }
    }

    /// Like [`Worker::ask`], but refuses the job if the worker was given up.
    pub(crate) fn offer(&self, job: impl FnOnce(&mut Plan) + Send + 'static) -> Result<Answer<()>, Unresponsive> {
        if self.pulse.is_given_up() { Err(Unresponsive(self.pulse.index)) } else { Ok(self.ask(job)) }
    }

    /// Makes the worker send a packet of a controller soon. Returns false if too many wait already.
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
            // The worker still uses its resources, so they stay. Others have its queues when it wakes up, so that it must do
            // nothing but end.
            Err(unresponsive) => {
                drop(self.jobs.take(usize::MAX));
                drop(self.ask(|plan| plan.stop = true));
                tracing::error!("{unresponsive}; it is left behind");
            }
        }
    }
}

fn pin(cpu: usize) -> rustix::io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set)
}

/// A worker, as its thread sees it.
struct Run {
    jobs: Arc<Mailbox<Job>>,
    outbox: Arc<Mailbox<Emission>>,
    unsent: Arc<Drops>,
    counters: Arc<WorkerCounters>,
    cycles: Cycles,
    idle: Idle,
    patience: Option<Duration>,
    turn: Option<Duration>,
}

impl Run {
    fn run(&mut self, sleeper: Option<Sleeper>) {
        let mut plan = Plan::new(self.counters.clone(), self.cycles.clone(), sleeper, self.turn);
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
        // Dropping a job tells those who wait for it that it will not be done.
        drop(self.jobs.close());
        self.lose(self.outbox.close().len());
    }

    #[inline(always)]
    fn is_called(&self) -> bool {
        self.jobs.is_waiting() || self.outbox.is_waiting()
    }

    /// Runs all jobs of the control side, and sends one burst of controllers' packets. The rest of these wait until the
    /// queues have had their turn.
    #[cold]
    fn serve(&self, plan: &mut Plan) {
        self.counters.place.set(Place::nowhere(Activity::Jobs));
        for job in self.jobs.take(usize::MAX) {
            job(plan);
        }
        if self.outbox.is_waiting() {
            let mut emissions = self.outbox.take(MAX_BURST);
            self.lose(plan.inject(emissions.make_contiguous(), &self.unsent));
        }
    }

    /// Counts packets of controllers for which there is no bridge.
    fn lose(&self, packets: usize) {
        if packets > 0 {
            self.unsent.add(Reason::Unconnected, packets as u64);
        }
    }
}
