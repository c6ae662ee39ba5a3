//! The workers and the queues: the only place where plans of workers are changed.
//!
//! Each queue has one record of who has its halves ([`Queue`]). A half that comes is parked, and [`place`] gives it to the workers
//! that the layout names. A new layout takes halves only from workers that lose them ([`release`]), and then places what is parked:
//! a worker that nothing concerns gets no job.
//!
//! All of this runs on control threads, one at a time, under one lock; a worker only runs the jobs left for it, between
//! two bursts. Only [`Fabric::arrange`] holds the lock while it waits for a worker. A worker that does not respond
//! keeps what it has, which is neither taken from it nor freed.

mod changes;
mod crew;
mod deliver;
mod ending;
mod halves;
mod place;
mod port_stages;
mod post;
mod queue;
mod release;
mod rest;
mod slots;
mod stages;
mod workers;

use super::layout::Layout;
use crate::drops::Drops;
use crate::port::Kept;
use crate::queue_id::QueueId;
use crate::sharing::Parent;
use crate::spec::WorkerSpec;
use crate::stage::shared::Stuck;
use crate::worker::{Pulse, Unresponsive, Worker};
use port_stages::PortStages;
use post::Post;
use queue::Queue;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// The workers and the queues.
pub(super) struct Fabric {
    state: Mutex<FabricState>,
    /// Counter of controllers' packets that are not sent.
    unsent: Arc<Drops>,
}

/// Everything that the fabric changes, under its lock.
struct FabricState {
    /// The layout that the plans of the workers follow.
    layout: Arc<Layout>,
    posts: Vec<Post>,
    /// Queues that are up, or that several send to.
    queues: BTreeMap<QueueId, Queue>,
    /// Stages of ports, by id.
    ports: HashMap<u64, PortStages>,
    /// Parents of queues that were given up before all frames had come back: workers may still read these.
    stranded: Vec<Parent>,
}

impl From<Unresponsive> for Kept {
    fn from(why: Unresponsive) -> Kept {
        Kept(why.to_string())
    }
}

impl From<Stuck> for Kept {
    fn from(why: Stuck) -> Kept {
        Kept(why.to_string())
    }
}

impl FabricState {
    /// Returns the record of a queue.
    fn queue(&mut self, id: QueueId) -> &mut Queue {
        self.queues.entry(id).or_default()
    }
}

impl Fabric {
    /// Returns a fabric without workers, which counts controllers' packets that are not sent in `unsent`.
    pub(super) fn new(layout: Arc<Layout>, unsent: Arc<Drops>) -> Fabric {
        let state = FabricState {
            layout,
            posts: Vec::new(),
            queues: BTreeMap::new(),
            ports: HashMap::new(),
            stranded: Vec::new(),
        };
        Fabric { state: Mutex::new(state), unsent }
    }

    fn state(&self) -> MutexGuard<'_, FabricState> {
        self.state.lock().unwrap()
    }

    /// Checks that all workers respond, or returns one that does not.
    pub(super) fn respond(&self) -> Result<(), Unresponsive> {
        self.pulses().iter().try_for_each(|pulse| pulse.feel())
    }

    /// Starts those of the `wanted` workers that do not run yet. They have nothing to do until [`Fabric::arrange`] gets them.
    pub(super) fn spawn_missing(&self, wanted: &[WorkerSpec]) -> std::io::Result<Vec<Option<Worker>>> {
        let state = self.state();
        let is_there = |index: usize, spec| state.posts.get(index).is_some_and(|post| post.spec.runs_like(spec));
        let spawn = |(index, spec)| match is_there(index, spec) {
            true => Ok(None),
            false => Worker::spawn(index, spec, &self.unsent).map(Some),
        };
        wanted.iter().enumerate().map(spawn).collect()
    }

    /// Has the workers follow `layout`. `spawned` is the result of [`Fabric::spawn_missing`] for its workers. Frames of queues that
    /// another worker polls from now on, or that go another way, wait meanwhile; all others pass. `prepare` runs when these
    /// queues have stopped, and no worker has anything of the new layout. A worker that does not respond takes its part when it
    /// does, and keeps the queues that it should lose: returns the ids of their ports, and ends sessions of guests among them.
    pub(super) fn arrange(
        &self,
        layout: &Arc<Layout>,
        spawned: Vec<Option<Worker>>,
        prepare: impl FnOnce(),
    ) -> HashSet<u64> {
        self.rest_crews(layout, &spawned);
        let mut state = self.state();
        let lost = state.release(layout, &spawned);
        prepare();
        state.replace_workers(&layout.workers, spawned);
        state.layout = layout.clone();
        state.queues.retain(|id, _| layout.port(id.port).is_some());
        state.ports.retain(|id, _| layout.port(*id).is_some());
        state.lay_out();
        state.start();
        for (port, why) in layout.ports.iter().filter_map(|port| Some((port, lost.get(&port.id)?))) {
            port.fault.withhold(why.clone());
        }
        lost.into_keys().collect()
    }

    /// Ends all workers, except those that do not respond.
    pub(super) fn end(&self) {
        let mut state = self.state();
        let ended = (std::mem::take(&mut state.posts), std::mem::take(&mut state.queues));
        drop(state);
        drop(ended);
    }

    /// Returns the heartbeats of the workers.
    pub(super) fn pulses(&self) -> Vec<Arc<Pulse>> {
        self.state().posts.iter().map(|post| post.worker.pulse.clone()).collect()
    }
}
