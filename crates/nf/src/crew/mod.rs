//! Crews: several workers process the frames of all ports. [`Sharing`] says how they share these.
//!
//! With [`Sharing::StaticRole`], one thread, the *parent*, alone talks to the devices: it receives, refills, transmits,
//! reclaims and notifies. It publishes received bursts as *batches*. *Workers* claim batches by themselves, process the
//! frames where they lie, and say by a [`Verdict`] where each goes. The parent sends the batches in the order in which it
//! published them, so that all frames keep their order, and those of each flow with them. The parent is one more thread, or
//! one of the workers ([`ParentRole`]): then it processes a batch in each round in which one is unclaimed, and serves the
//! devices between two batches.
//!
//! With [`Sharing::Locked`], there is no parent: workers take turns at the ports. Each locks them, receives a batch, unlocks,
//! processes it, locks again, and sends it. Frames of different batches may leave in another order. This is the usual way to
//! share a queue, and there for comparison.
//!
//! With [`Sharing::Rss`], each worker has queue pairs of its own of each port, and buffers, and does all itself. Frames of a
//! queue keep their order. The device decides which queue a frame comes in by: all frames of a flow that stays in one queue
//! are processed by one worker.
//!
//! Packets never leave the thread that has their ports. A worker's function gets a [`View`] of each: its bytes, in all of its
//! buffers. After the start nothing allocates, and nothing calls the kernel while all threads are busy.
//!
//! Ports may aggregate. The packets of a split aggregate are handed out in several batches if one is too small. Packets that
//! are sent at a time are joined: those of all batches that the parent has released, or of one batch.
//!
//! # Workers that fail
//!
//! A worker that holds the oldest batch for longer than [`CrewOptions::patience`] delays all frames behind it. The parent
//! then continues without this batch. Once it comes back, its frames are dropped and counted as `worker-stalled`, because
//! they would be out of order. At the end, the crew waits for workers that have stalled. If the function of a parent that
//! works stalls, no thread serves the devices. With [`Sharing::Rss`], a worker that stalls holds up its own queues, and when
//! a device has left, all wait for it before they reconnect.
//!
//! If a worker panics, the frames of its batch are dropped and counted as `worker-panicked`, frames received before are sent,
//! and the crew ends with an error.
//!
//! # Example
//!
//! ```no_run
//! # use nf::{Idle, Options, PortOptions, Ports, crew::{Crew, CrewOptions, Sharing, Verdict, View}};
//! # use std::sync::atomic::AtomicBool;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut crew = Crew::new(CrewOptions::new(3, Sharing::StaticRole))?;
//! let options = crew.options().adapt(Options::new(vec![PortOptions::new("a.sock")]));
//! let stop = AtomicBool::new(false);
//! let mut ports = Ports::open(options, &stop)?;
//! crew.run(&mut ports, Idle::Sleep, &stop, || {
//!     // Each worker has its own count.
//!     let mut count = 0;
//!     move |frame: &mut View| {
//!         count += 1;
//!         if count % 2 == 0 { Verdict::Back } else { Verdict::Drop }
//!     }
//! })?;
//! # Ok(())
//! # }
//! ```

mod batch;
mod counters;
mod error;
mod locked;
mod options;
mod own;
mod parent;
mod rest;
mod rss;
mod threads;
mod view;
mod worker;

pub use counters::{Histogram, ParentCounters, WorkerCounters};
pub use error::CrewError;
pub use options::{CrewOptions, ParentRole, Sharing};
pub use view::{Verdict, View};

use crate::port::Ports;
use crate::run::Idle;
use std::sync::atomic::AtomicBool;

/// Workers for the frames of all ports.
pub struct Crew {
    options: CrewOptions,
    parent: ParentCounters,
    workers: Vec<WorkerCounters>,
}

impl Crew {
    /// Creates a crew, which starts in [`Crew::run`]. Fails if the options contradict each other.
    pub fn new(options: CrewOptions) -> Result<Crew, CrewError> {
        options.check()?;
        let workers = vec![WorkerCounters::default(); options.workers.into()];
        Ok(Crew { options, parent: ParentCounters::default(), workers })
    }

    /// Returns its options.
    pub fn options(&self) -> &CrewOptions {
        &self.options
    }

    /// Returns the counters of the parent, if there is one.
    pub fn parent(&self) -> Option<&ParentCounters> {
        (self.options.sharing == Sharing::StaticRole).then_some(&self.parent)
    }

    /// Returns the counters of each worker. A parent that works is the first one.
    pub fn workers(&self) -> &[WorkerCounters] {
        &self.workers
    }

    /// Receives, processes and sends frames until `stop` is set, or until a worker panics. What was received by then is
    /// processed and sent. `work` makes the function of each worker, which gets every frame of the worker's batches.
    /// Reconnects lost links if [`crate::Options::reconnect`] is set.
    ///
    /// The options of the ports must have passed through [`CrewOptions::adapt`]. The calling thread is the parent, if there is
    /// one. If [`CrewOptions::cpus`] are given, it stays pinned.
    pub fn run<W>(
        &mut self,
        ports: &mut Ports,
        idle: Idle,
        stop: &AtomicBool,
        work: impl Fn() -> W,
    ) -> Result<(), CrewError>
    where
        W: FnMut(&mut View<'_>) -> Verdict + Send,
    {
        let (opened, needed) = (ports.workers(), self.options.port_workers());
        if opened != needed {
            return Err(CrewError::Ports { opened, needed });
        }
        let works = self.workers.iter_mut().map(|counters| worker::Work { function: work(), counters }).collect();
        match self.options.sharing {
            Sharing::StaticRole => parent::run(ports, &self.options, idle, stop, works, &mut self.parent),
            Sharing::Locked => locked::run(ports, &self.options, idle, stop, works),
            Sharing::Rss => rss::run(ports, &self.options, idle, stop, works),
        }
    }
}
