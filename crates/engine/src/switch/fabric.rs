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
use crate::forward::HalfStep;
use crate::port::{Kept, ReceiveHalf, TransmitHalf};
use crate::queue_id::QueueId;
use crate::sharing::Parent;
use crate::spec::WorkerSpec;
use crate::stage::shared::Stuck;
use crate::worker::{Answer, Pulse, Removed, Unresponsive, Worker};
use changes::Changes;
use port_stages::PortStages;
use post::Post;
use queue::{Queue, Receive, Transmit};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use vhost_user::Event;

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

    /// Gives a queue that is up to the worker that polls it, or to those that share it, and waits until they have it. A worker
    /// that does not respond drops the half later.
    pub(super) fn attach_receive(&self, id: QueueId, half: ReceiveHalf) -> Result<(), Kept> {
        drop(self.detach_receive(id)?);
        let placed = {
            let mut state = self.state();
            state.check(state.layout.receivers(id))?;
            let ingress = state.ingress(id, half);
            state.queue(id).receive = Receive::Parked(ingress);
            let mut changes = Changes::default();
            state.place_receive(id, &mut changes).map(|()| state.ask(changes))
        };
        let attached = placed.and_then(|asked| Ok(self.collect(asked).map(drop)?));
        attached.inspect_err(|_| drop(self.detach_receive(id)))
    }

    /// Takes a queue from its workers. When this returns, none of its frames is in use any more. A worker that does not
    /// respond drops the half later.
    pub(super) fn detach_receive(&self, id: QueueId) -> Result<Option<ReceiveHalf>, Kept> {
        self.wait_until_rest(vec![id])?;
        let (receive, asked) = {
            let mut state = self.state();
            let Some(queue) = state.queues.get_mut(&id) else { return Ok(None) };
            let receive = std::mem::take(&mut queue.receive);
            let mut changes = Changes::default();
            match &receive {
                Receive::Polled(wiring) => changes.at(wiring.worker).leave.push(id),
                Receive::Crew(crew) => changes.leave_crew(id, &crew.wiring),
                Receive::Stranded(worker) => changes.call(*worker),
                Receive::Down | Receive::Parked(_) => {}
            }
            (receive, state.ask(changes))
        };
        let mut removed = self.collect(asked).inspect_err(|Unresponsive(worker)| {
            self.state().queue(id).receive = Receive::Stranded(*worker);
        })?;
        drop(removed.lanes.drain(..));
        match receive {
            Receive::Parked(ingress) => Ok(Some(ingress.half)),
            Receive::Crew(crew) => {
                self.state().clear_lanes(&crew.wiring);
                match removed.parents.pop() {
                    Some((_, parent)) => Ok(Some(parent.into_half())),
                    None => crew.unlock(),
                }
            }
            Receive::Down | Receive::Stranded(_) | Receive::Polled(_) => {
                Ok(removed.inputs.pop().map(|(_, ingress)| ingress.half))
            }
        }
    }

    /// Waits for all of these answers, and returns them together.
    fn collect(&self, asked: Vec<Answer<Removed>>) -> Result<Removed, Unresponsive> {
        let mut removed = Removed::default();
        asked.into_iter().try_for_each(|answer| answer.wait().map(|some| removed.add(some)))?;
        Ok(removed)
    }

    /// Replaces the kick descriptor of a queue that is polled.
    pub(super) fn rewire(&self, id: QueueId, kick: Option<Event>) -> Result<(), Kept> {
        let mut state = self.state();
        let FabricState { posts, queues, .. } = &mut *state;
        match queues.get_mut(&id).map(|queue| &mut queue.receive) {
            Some(Receive::Polled(wiring)) => {
                drop(posts[wiring.worker].worker.offer(move |plan| plan.rewire(id, kick))?)
            }
            Some(Receive::Parked(ingress)) => {
                if let Some(half) = ingress.half.life_cycle() {
                    half.rewire(kick);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Like [`Fabric::attach_receive`], for the transmit half.
    pub(super) fn attach_transmit(&self, id: QueueId, half: TransmitHalf) -> Result<(), Kept> {
        drop(self.detach_transmit(id)?);
        let asked = {
            let mut state = self.state();
            let egress = state.egress(id, half);
            let running = state.running(id.port);
            let queue = state.queue(id);
            if let Transmit::Shared(shared) = &queue.transmit {
                *shared.lock()? = Some(egress);
                running.set(id.queue, true);
                return Ok(());
            }
            queue.transmit = Transmit::Parked(egress);
            let mut changes = Changes::default();
            state.place_transmit(id, &mut changes);
            state.ask(changes)
        };
        self.collect(asked).inspect_err(|_| drop(self.detach_transmit(id)))?;
        let state = self.state();
        if state.queues.get(&id).is_some_and(|queue| matches!(queue.transmit, Transmit::Shared(_))) {
            state.running(id.port).set(id.queue, true);
        }
        Ok(())
    }

    /// Like [`Fabric::detach_receive`], for the transmit half.
    pub(super) fn detach_transmit(&self, id: QueueId) -> Result<Option<TransmitHalf>, Kept> {
        let asked = {
            let mut state = self.state();
            state.running(id.port).set(id.queue, false);
            let Some(queue) = state.queues.get_mut(&id) else { return Ok(None) };
            let mut changes = Changes::default();
            match std::mem::take(&mut queue.transmit) {
                Transmit::Down => return Ok(None),
                Transmit::Parked(egress) => return Ok(Some(egress.half)),
                Transmit::Shared(shared) => {
                    queue.transmit = Transmit::Shared(shared.clone());
                    return Ok(shared.lock()?.take().map(|egress| egress.half));
                }
                Transmit::Own(sender) => state.step(id, sender, HalfStep::Take, &mut changes),
                Transmit::Stranded(worker) => changes.call(worker),
            }
            state.ask(changes)
        };
        let mut removed = self.collect(asked).inspect_err(|Unresponsive(worker)| {
            self.state().queue(id).transmit = Transmit::Stranded(*worker);
        })?;
        Ok(removed.halves.pop().map(|(_, egress)| egress.half))
    }

    /// Takes queues of a port from their workers, for good; a worker that does not respond drops them later.
    pub(super) fn clear(&self, port: u64, queues: std::ops::Range<usize>) {
        for id in queues.map(|queue| QueueId::new(port, queue)) {
            let cleared = self.detach_receive(id).err().into_iter().chain(self.detach_transmit(id).err());
            cleared.for_each(|why| tracing::error!("a queue is left with its worker: {why}"));
        }
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
