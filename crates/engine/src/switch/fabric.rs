//! The workers and their plans: the only place where plans are put together and changed.
//!
//! All of this runs on control threads, one at a time, under one lock; a worker only runs the jobs left for it, between
//! two bursts. Only [`Fabric::arrange`] holds the lock while it waits for a worker. A worker that does not respond
//! keeps what it has, which is neither taken from it nor freed.

mod assemble;
mod crew;
mod sharing;
mod stages;

use super::layout::Layout;
use super::shared::PortShared;
use crate::answers::Delivery;
use crate::drops::{Drops, Reason};
use crate::forward::flows::Emission;
use crate::forward::{BridgePlan, Half};
use crate::port::{Kept, ReceiveHalf, TransmitHalf};
use crate::queue_key::QueueKey;
use crate::sharing::Parent;
use crate::spec::WorkerSpec;
use crate::stage::egress::Egress;
use crate::stage::ingress::Ingress;
use crate::stage::running::Running;
use crate::stage::setup::Setup;
use crate::stage::shared::{Shared, Stuck};
use crate::stage::stopwatch::Stopwatch;
use crate::worker::{Answer, Pieces, Pulse, Unresponsive, Worker};
use crew::Crew;
use packet::{BurstStorage, MAX_BURST, Segment};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use vhost_user::Event;
use virtqueue::ordering;

/// The workers, and the place of every half of a queue.
#[derive(Default)]
pub(super) struct Fabric {
    state: Mutex<FabricState>,
    /// Counter of controllers' packets that are not sent.
    unsent: Arc<Drops>,
}

/// Everything that the fabric changes, under its lock.
#[derive(Default)]
struct FabricState {
    workers: Vec<(WorkerSpec, Worker)>,
    /// Workers that poll queues, and workers that are the only ones to send to queues.
    pollers: HashMap<QueueKey, usize>,
    senders: HashMap<QueueKey, usize>,
    /// The workers of queues that several share.
    crews: HashMap<QueueKey, Crew>,
    /// Parents whose frames have not all come back, and whose ports have been given up.
    stranded: Vec<Parent>,
    /// The first worker of the bridge that forwards by flows.
    emitter: Option<usize>,
    /// Queues to which several workers send.
    shared: HashMap<QueueKey, Arc<Shared>>,
    /// Transmit queues that are up, by port.
    running: HashMap<u64, Arc<Running>>,
    /// Queues that are up and that no worker uses at present.
    parked_receive: HashMap<QueueKey, Ingress>,
    parked_transmit: HashMap<QueueKey, Egress>,
    /// Setups of the stages of ports, by id.
    setups: HashMap<u64, Arc<Setup>>,
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

impl Fabric {
    /// Returns a fabric that counts controllers' packets that are not sent in `unsent`.
    pub(super) fn new(unsent: Arc<Drops>) -> Fabric {
        Fabric { state: Mutex::default(), unsent }
    }

    fn state(&self) -> MutexGuard<'_, FabricState> {
        self.state.lock().unwrap()
    }

    /// Gives a queue that is up to the worker that polls it, and waits until it has it. A worker that does not respond
    /// drops the half later.
    pub(super) fn attach_receive(&self, key: QueueKey, half: ReceiveHalf) -> Result<(), Kept> {
        let Some(half) = self.attach_shared(key, half)? else { return Ok(()) };
        let attached = {
            let mut state = self.state();
            let ingress = state.ingress(key, half);
            match state.poller(key) {
                Some(worker) => worker.offer(move |plan| plan.attach_receive(key, ingress))?,
                None => {
                    state.parked_receive.insert(key, ingress);
                    return Ok(());
                }
            }
        };
        Ok(attached.wait().inspect_err(|_| drop(self.detach_receive(key)))?)
    }

    /// Takes a queue from its worker. When this returns, none of its frames is in use any more. A worker that does not
    /// respond drops the half later.
    pub(super) fn detach_receive(&self, key: QueueKey) -> Result<Option<ReceiveHalf>, Kept> {
        if self.is_shared(key) {
            return self.detach_shared(key);
        }
        let taken = {
            let mut state = self.state();
            match (state.parked_receive.remove(&key), state.poller(key)) {
                (None, Some(worker)) => worker.ask(move |plan| plan.detach_receive(key)),
                (parked, _) => return Ok(parked.map(|ingress| ingress.half)),
            }
        };
        Ok(taken.wait()?.map(|ingress| ingress.half))
    }

    /// Replaces the kick descriptor of a queue that is polled.
    pub(super) fn rewire(&self, key: QueueKey, kick: Option<Event>) -> Result<(), Kept> {
        let mut state = self.state();
        match state.poller(key) {
            Some(worker) => drop(worker.offer(move |plan| plan.rewire(key, kick))?),
            None => {
                if let Some(half) = state.parked_receive.get_mut(&key).and_then(|ingress| ingress.half.life_cycle()) {
                    half.rewire(kick);
                }
            }
        }
        Ok(())
    }

    /// Like [`Fabric::attach_receive`], for the transmit half.
    pub(super) fn attach_transmit(&self, key: QueueKey, half: TransmitHalf) -> Result<(), Kept> {
        let attached = {
            let mut state = self.state();
            let egress = state.egress(key, half);
            let running = state.running(key.port);
            if let Some(shared) = state.shared.get(&key) {
                *shared.lock()? = Some(egress);
                running.set(key.queue, true);
                return Ok(());
            }
            match state.sender(key) {
                Some(worker) => worker.offer(move |plan| {
                    // The queue exists: only the whole plan can remove it.
                    if let Some(slot) = plan.own_transmit(key) {
                        *slot = Some(egress);
                        running.set(key.queue, true);
                    }
                })?,
                None => {
                    state.parked_transmit.insert(key, egress);
                    running.set(key.queue, true);
                    return Ok(());
                }
            }
        };
        Ok(attached.wait().inspect_err(|_| drop(self.detach_transmit(key)))?)
    }

    /// Like [`Fabric::detach_receive`], for the transmit half.
    pub(super) fn detach_transmit(&self, key: QueueKey) -> Result<Option<TransmitHalf>, Kept> {
        let taken = {
            let mut state = self.state();
            let running = state.running(key.port);
            running.set(key.queue, false);
            if let Some(shared) = state.shared.get(&key) {
                return Ok(shared.lock()?.take().map(|egress| egress.half));
            }
            match (state.parked_transmit.remove(&key), state.sender(key)) {
                (None, Some(worker)) => worker.ask(move |plan| {
                    // Once more: a worker that did not respond may have attached the queue only now.
                    running.set(key.queue, false);
                    plan.own_transmit(key)?.take()
                }),
                (parked, _) => return Ok(parked.map(|egress| egress.half)),
            }
        };
        Ok(taken.wait()?.map(|egress| egress.half))
    }

    /// Takes queues of a port from their workers, for good; a worker that does not respond drops them later.
    pub(super) fn clear(&self, port: u64, queues: std::ops::Range<usize>) {
        for key in queues.map(|queue| QueueKey { port, queue }) {
            let cleared = self.detach_receive(key).err().into_iter().chain(self.detach_transmit(key).err());
            cleared.for_each(|why| tracing::error!("a queue is left with its worker: {why}"));
        }
    }

    /// Checks that all workers respond, or returns one that does not.
    pub(super) fn respond(&self) -> Result<(), Unresponsive> {
        let asked: Vec<_> = self.state().workers.iter().map(|(_, worker)| worker.ask(|_| ())).collect();
        asked.into_iter().try_for_each(Answer::wait)
    }

    /// Starts those of the `wanted` workers that do not run yet. They have nothing to do until [`Fabric::arrange`] gets them.
    pub(super) fn spawn_missing(&self, wanted: &[WorkerSpec]) -> std::io::Result<Vec<Option<Worker>>> {
        let state = self.state();
        let is_there = |index: usize, spec| state.workers.get(index).is_some_and(|(had, _)| had.runs_like(spec));
        let spawn = |(index, spec)| match is_there(index, spec) {
            true => Ok(None),
            false => Worker::spawn(index, spec, &self.unsent).map(Some),
        };
        wanted.iter().enumerate().map(spawn).collect()
    }

    /// Gives the workers new plans by `layout`, with the halves that exist; drops queues of ports that the layout
    /// lacks. `spawned` is the result of [`Fabric::spawn_missing`] for the layout's workers. Frames wait in their queues
    /// meanwhile, and nobody forwards while `pause` runs. A worker that does not respond adopts its plan when it does,
    /// and keeps its queues: returns the ids of their ports, and ends sessions of guests among them.
    pub(super) fn arrange(&self, layout: &Layout, spawned: Vec<Option<Worker>>, pause: impl FnOnce()) -> HashSet<u64> {
        let mut state = self.state();
        let (mut halves, lost) = state.collect(layout);
        pause();
        state.replace_workers(&layout.workers, spawned);
        halves.keep(|id| layout.ports.iter().any(|p| p.id == id));
        (state.pollers, state.senders) = Default::default();
        state.running.retain(|id, _| layout.ports.iter().any(|p| p.id == *id));
        state.setups.retain(|id, _| layout.ports.iter().any(|p| p.id == *id));
        state.mirror(layout, &mut halves);
        let mut parts = state.divide_all(layout, &mut halves);
        let plans: Vec<_> =
            (0..layout.workers.len()).map(|worker| state.assemble(layout, worker, &mut halves, &mut parts)).collect();
        state.emitter = plans.iter().position(|pieces| pieces.bridges.iter().any(BridgePlan::emits));
        state.parked_receive = halves.receive;
        state.parked_transmit = halves.transmit;
        let workers = state.workers.iter().map(|(_, worker)| worker);
        // The old pieces come back with the answers, as to drop thousands of them takes the worker's time.
        let asked: Vec<_> =
            workers.zip(plans).map(|(worker, pieces)| worker.ask(move |plan| plan.replace(pieces))).collect();
        for unresponsive in asked.into_iter().filter_map(|answer| answer.wait().err()) {
            tracing::error!("{unresponsive}: what it should do has changed");
        }
        lost
    }

    /// Has a worker of the bridge that forwards by flows send a controller's packet, or counts it as dropped.
    pub(super) fn emit(&self, emission: Emission) {
        let state = self.state();
        match state.emitter {
            Some(worker) if !state.workers[worker].1.emit(emission) => self.unsent.add(Reason::ControllerFlood, 1),
            Some(_) => {}
            None => self.unsent.add(Reason::Unconnected, 1),
        }
    }

    /// Sends frames by a queue of `port`, neither joined nor encapsulated.
    pub(super) fn send(&self, port: &PortShared, queue: usize, frames: Vec<Vec<u8>>) {
        let key = port.key(queue);
        let (counters, drops) = (port.queues[queue].clone(), port.drops.queue.clone());
        let send = move |egress: Option<&Egress>| {
            let Some(egress) = egress else { return drops.add(Reason::Down, frames.len() as u64) };
            let (mut storage, watch) = (Box::<BurstStorage>::default(), Stopwatch::default());
            for some in frames.chunks(MAX_BURST) {
                let mut burst = storage.start();
                some.iter().for_each(|frame| burst.push(Segment::from(&frame[..])));
                let sent = egress.transmit_bare(burst.frames(), &watch);
                counters.sent.packets.add(sent.frames.into());
                counters.sent.bytes.add(sent.bytes);
                sent.count_drops(some.len(), &drops);
            }
            ordering::before_asking();
            egress.half.notify();
        };
        let state = self.state();
        if let Some(shared) = state.shared.get(&key) {
            return match shared.lock() {
                Ok(egress) => send(egress.as_ref()),
                Err(_) => send(None),
            };
        }
        match state.sender(key).filter(|worker| !worker.pulse.is_given_up()) {
            Some(worker) => {
                drop(worker.ask(move |plan| send(plan.own_transmit(key).and_then(|egress| egress.as_ref()))));
            }
            None => send(state.parked_transmit.get(&key)),
        }
    }

    /// Forwards frames as if a queue of `port` had received them, behind all stages: the queue that goes with the one that they answer to.
    pub(super) fn receive(&self, port: &PortShared, index: usize, frames: Vec<Vec<u8>>) {
        let (queue, _lane) = port.queue_of(index);
        let key = port.key(queue);
        let delivery = Arc::new(Delivery::new(frames, port.drops.queue.clone()));
        let state = self.state();
        // Frames of a shared queue are forwarded by any of its workers.
        let only = if state.crews.contains_key(&key) { None } else { state.pollers.get(&key) };
        let workers = state.workers.iter().enumerate().filter(|(index, _)| only.is_none_or(|only| only == index));
        for (_, (_, worker)) in workers.filter(|(_, (_, worker))| !worker.pulse.is_given_up()) {
            let delivery = delivery.clone();
            drop(worker.ask(move |plan| plan.receive_as(key, &delivery)));
        }
    }

    /// Ends all workers, except those that do not respond.
    pub(super) fn end(&self) {
        let all = std::mem::take(&mut *self.state());
        drop(all);
    }

    /// Returns the heartbeats of the workers.
    pub(super) fn pulses(&self) -> Vec<Arc<Pulse>> {
        self.state().workers.iter().map(|(_, worker)| worker.pulse.clone()).collect()
    }
}

/// Queues that move from old plans to new ones.
struct Halves {
    receive: HashMap<QueueKey, Ingress>,
    transmit: HashMap<QueueKey, Egress>,
}

impl Halves {
    fn keep(&mut self, port: impl Fn(u64) -> bool) {
        self.receive.retain(|key, _| port(key.port));
        self.transmit.retain(|key, _| port(key.port));
    }
}

impl FabricState {
    fn poller(&self, key: QueueKey) -> Option<&Worker> {
        self.pollers.get(&key).map(|&worker| &self.workers[worker].1)
    }

    fn sender(&self, key: QueueKey) -> Option<&Worker> {
        self.senders.get(&key).map(|&worker| &self.workers[worker].1)
    }

    /// Returns the transmit queues of a port that are up.
    fn running(&mut self, port: u64) -> Arc<Running> {
        self.running.entry(port).or_default().clone()
    }

    /// Takes every half from the workers, who then have nothing to do. Also returns the ports whose halves a worker keeps.
    fn collect(&mut self, layout: &Layout) -> (Halves, HashSet<u64>) {
        let mut halves = Halves {
            receive: std::mem::take(&mut self.parked_receive),
            transmit: std::mem::take(&mut self.parked_transmit),
        };
        let mut lost = HashMap::new();
        let mut parents = Vec::new();
        self.rest_all();
        let take_all = |(_, worker): &(_, Worker)| worker.ask(|plan| plan.replace(Pieces::default()));
        let asked: Vec<_> = self.workers.iter().map(take_all).collect();
        for (index, answer) in asked.into_iter().enumerate() {
            let Pieces { inputs, shared, outputs, .. } = answer.wait().unwrap_or_else(|unresponsive| {
                let had = self.pollers.iter().chain(&self.senders).filter(|(_, worker)| **worker == index);
                lost.extend(had.map(|(key, _)| (key.port, unresponsive.to_string())));
                Pieces::default()
            });
            halves.receive.extend(inputs.into_iter().filter_map(|input| Some((input.route.from, input.ingress?))));
            parents.extend(shared.parents.into_iter().filter_map(|input| Some((input.queue, input.parent?))));
            for output in outputs {
                for (queue, transmit) in (output.first..).zip(output.queues) {
                    if let Half::Own(Some(egress)) = transmit.half {
                        halves.transmit.insert(QueueKey { port: output.port, queue }, egress);
                    }
                }
            }
        }
        let mut whole = HashMap::new();
        for key in self.collect_shared(parents, &mut whole) {
            lost.insert(
                key.port,
                "workers do not give its frames back; `millrace ctl workers` shows where each is".into(),
            );
        }
        halves.receive.extend(whole.into_iter().map(|(key, half)| (key, self.ingress(key, half))));
        for (key, shared) in self.shared.drain() {
            match shared.lock() {
                Ok(mut egress) => halves.transmit.extend(egress.take().map(|egress| (key, egress))),
                Err(stuck) => drop(lost.insert(key.port, stuck.to_string())),
            };
        }
        for (port, why) in layout.ports.iter().filter_map(|port| Some((port, lost.get(&port.id)?))) {
            port.fault.withhold(why.clone());
        }
        (halves, lost.into_keys().collect())
    }

    /// Ends workers that are no longer wanted, and adds those in `spawned`.
    fn replace_workers(&mut self, wanted: &[WorkerSpec], spawned: Vec<Option<Worker>>) {
        let mut had: Vec<_> = self.workers.drain(..).map(|(_, worker)| Some(worker)).collect();
        for ((index, spec), new) in wanted.iter().enumerate().zip(spawned) {
            let worker = new.or_else(|| had.get_mut(index)?.take());
            self.workers.extend(worker.map(|worker| (spec.clone(), worker)));
        }
    }

    /// Returns a queue that several workers send to.
    fn share(&mut self, key: QueueKey, halves: &mut Halves) -> Arc<Shared> {
        let egress = || Arc::new(Shared::new(halves.transmit.remove(&key)));
        self.shared.entry(key).or_insert_with(egress).clone()
    }
}
