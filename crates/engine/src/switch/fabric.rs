//! The workers and their plans: the only place where plans are put together and changed.
//!
//! All of this runs on control threads, one at a time, under one lock; a worker only runs the jobs left for it, between
//! two bursts. Only [`Fabric::arrange`] holds the lock while it waits for a worker. A worker that does not respond
//! keeps what it has, which is neither taken from it nor freed.

mod stages;

use super::layout::{Destination, Layout};
use super::shared::PortShared;
use crate::drops::{Drops, Reason};
use crate::forward::flows::Emission;
use crate::forward::{BridgePlan, Half, Output, Target, TransmitQueue};
use crate::port::{Kept, ReceiveHalf, TransmitHalf};
use crate::spec::WorkerSpec;
use crate::stage::egress::Egress;
use crate::stage::ingress::Ingress;
use crate::stage::running::Running;
use crate::stage::setup::Setup;
use crate::stage::shared::{Shared, Stuck};
use crate::stage::stopwatch::Stopwatch;
use crate::worker::{Answer, Input, Pieces, Pulse, Unresponsive, Worker};
use packet::{BurstStorage, MAX_BURST, Segment};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use vhost_user::Event;
use virtqueue::ordering;

/// A queue pair of a port: the port's id and the queue's index.
pub(super) type QueueKey = (u64, usize);

/// The workers, and the place of every half of a queue.
#[derive(Default)]
pub(super) struct Fabric {
    state: Mutex<State>,
    /// Counter of controllers' packets that are not sent.
    unsent: Arc<Drops>,
}

#[derive(Default)]
struct State {
    workers: Vec<(WorkerSpec, Worker)>,
    /// Workers that poll queues, and workers that are the only ones to send to queues.
    pollers: HashMap<QueueKey, usize>,
    senders: HashMap<QueueKey, usize>,
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Gives a queue that is up to the worker that polls it, and waits until it has it. A worker that does not respond
    /// drops the half later.
    pub(super) fn attach_receive(&self, key: QueueKey, half: ReceiveHalf) -> Result<(), Kept> {
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
            let running = state.running(key.0);
            if let Some(shared) = state.shared.get(&key) {
                *shared.lock()? = Some(egress);
                running.set(key.1, true);
                return Ok(());
            }
            match state.sender(key) {
                Some(worker) => worker.offer(move |plan| {
                    // The queue exists: only the whole plan can remove it.
                    if let Some(slot) = plan.own_transmit(key) {
                        *slot = Some(egress);
                        running.set(key.1, true);
                    }
                })?,
                None => {
                    state.parked_transmit.insert(key, egress);
                    running.set(key.1, true);
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
            let running = state.running(key.0);
            running.set(key.1, false);
            if let Some(shared) = state.shared.get(&key) {
                return Ok(shared.lock()?.take().map(|egress| egress.half));
            }
            match (state.parked_transmit.remove(&key), state.sender(key)) {
                (None, Some(worker)) => worker.ask(move |plan| {
                    // Once more: a worker that did not respond may have attached the queue only now.
                    running.set(key.1, false);
                    plan.own_transmit(key)?.take()
                }),
                (parked, _) => return Ok(parked.map(|egress| egress.half)),
            }
        };
        Ok(taken.wait()?.map(|egress| egress.half))
    }

    /// Takes queues of a port from their workers, for good; a worker that does not respond drops them later.
    pub(super) fn clear(&self, port: u64, queues: std::ops::Range<usize>) {
        for key in queues.map(|queue| (port, queue)) {
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
        let plans: Vec<_> =
            (0..layout.workers.len()).map(|worker| state.assemble(layout, worker, &mut halves)).collect();
        state.emitter = plans.iter().position(|(_, _, bridges)| bridges.iter().any(BridgePlan::goes_by_flows));
        state.parked_receive = halves.receive;
        state.parked_transmit = halves.transmit;
        let workers = state.workers.iter().map(|(_, worker)| worker);
        let asked: Vec<_> =
            workers.zip(plans).map(|(worker, pieces)| worker.ask(move |plan| drop(plan.replace(pieces)))).collect();
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
        let key = (port.id, queue);
        let (counters, drops) = (port.queues[queue].clone(), port.drops.clone());
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
        self.receive.retain(|key, _| port(key.0));
        self.transmit.retain(|key, _| port(key.0));
    }
}

impl State {
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
        let nothing = || (Vec::new(), Vec::new(), Vec::new());
        let asked: Vec<_> =
            self.workers.iter().map(|(_, worker)| worker.ask(move |plan| plan.replace(nothing()))).collect();
        for (index, answer) in asked.into_iter().enumerate() {
            let (inputs, outputs, _) = answer.wait().unwrap_or_else(|unresponsive| {
                let had = self.pollers.iter().chain(&self.senders).filter(|(_, worker)| **worker == index);
                lost.extend(had.map(|(key, _)| (key.0, unresponsive.to_string())));
                nothing()
            });
            for input in inputs {
                halves.receive.extend(input.ingress.map(|ingress| ((input.port, input.queue), ingress)));
            }
            for output in outputs {
                for (queue, transmit) in (output.first..).zip(output.queues) {
                    if let Half::Own(Some(egress)) = transmit.half {
                        halves.transmit.insert((output.port, queue), egress);
                    }
                }
            }
        }
        for (key, shared) in self.shared.drain() {
            match shared.lock() {
                Ok(mut egress) => halves.transmit.extend(egress.take().map(|egress| (key, egress))),
                Err(stuck) => drop(lost.insert(key.0, stuck.to_string())),
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

    /// Assembles the plan of `worker`.
    fn assemble(&mut self, layout: &Layout, worker: usize, halves: &mut Halves) -> Pieces {
        let mut pieces = (Vec::new(), Vec::new(), Vec::new());
        for (port, queue) in layout.polled_by(worker) {
            let shared = &layout.ports[port];
            let key = (shared.id, queue);
            self.pollers.insert(key, worker);
            let destination = layout.destination(port, queue);
            let target = match destination {
                Destination::Port(other, only) => {
                    Target::Patch(self.output((layout, worker), (other, only), &mut pieces.1, halves))
                }
                Destination::Bridge(bridge, members) => {
                    let known = pieces.2.iter().position(|b: &BridgePlan| b.is_of(bridge));
                    let index = known.unwrap_or_else(|| {
                        let output = |&m: &usize| self.output((layout, worker), (m, None), &mut pieces.1, halves);
                        let outputs = members.iter().map(output).collect();
                        pieces.2.push(BridgePlan::new(bridge.clone(), outputs, worker));
                        pieces.2.len() - 1
                    });
                    let from = members.iter().position(|&m| m == port).unwrap_or_default();
                    Target::Bridge { bridge: index, from }
                }
                Destination::Nowhere => Target::Nowhere,
            };
            let ingress = halves.receive.remove(&key);
            // Its frames go there by the same output.
            let only = if let Destination::Port(_, only) = destination { only } else { None };
            let mut mapped = |(other, queue): (usize, usize)| {
                (self.output((layout, worker), (other, only), &mut pieces.1, halves), queue)
            };
            let rx_buffers_from = layout.rx_buffers_from(port, queue);
            let tx_in_place_via = layout.tx_in_place_via(port, queue);
            pieces.0.push(Input {
                port: shared.id,
                queue,
                ingress,
                target,
                number: rx_buffers_from.or(tx_in_place_via).map_or(queue, |(_, mapped)| mapped),
                rx_buffers_from: rx_buffers_from.map(&mut mapped),
                tx_in_place_via: tx_in_place_via.map(&mut mapped),
                counters: shared.queues[queue].clone(),
                drops: shared.drops.clone(),
            });
        }
        pieces
    }

    /// Returns a queue that several workers send to.
    fn share(&mut self, key: QueueKey, halves: &mut Halves) -> Arc<Shared> {
        let egress = || Arc::new(Shared::new(halves.transmit.remove(&key)));
        self.shared.entry(key).or_insert_with(egress).clone()
    }

    /// Returns the index in `outputs` of the output to `port`, or to one queue `only` of it, which is created if it is
    /// missing.
    fn output(
        &mut self,
        (layout, worker): (&Layout, usize),
        (port, only): (usize, Option<usize>),
        outputs: &mut Vec<Output>,
        halves: &mut Halves,
    ) -> usize {
        let shared: &Arc<PortShared> = &layout.ports[port];
        let queues = only.map_or(0..shared.queues.len(), |queue| queue..queue + 1);
        let is_it = |output: &Output| {
            output.port == shared.id && (output.first, output.queues.len()) == (queues.start, queues.len())
        };
        if let Some(index) = outputs.iter().position(is_it) {
            return index;
        }
        let first = queues.start;
        let queues = queues.map(|queue| {
            let (key, counters) = ((shared.id, queue), &shared.queues[queue]);
            let half = if layout.senders_to(port, queue) > 1 {
                Half::Shared(self.share(key, halves))
            } else {
                self.senders.insert(key, worker);
                Half::Own(halves.transmit.remove(&key))
            };
            TransmitQueue { half, counters: counters.clone() }
        });
        let mut output = Output::new(shared.id, queues.collect(), self.workers[worker].1.pulse.counters.clone());
        output.first = first;
        (output.running, output.drops) = (self.running(shared.id), shared.drops.clone());
        output.aggregates = shared.member().is_some();
        // A mapped port sends chains without a copy, and returns them by the queue that they came from.
        output.one = (output.aggregates && shared.mappings().next().is_none()).then_some(worker);
        outputs.push(output);
        outputs.len() - 1
    }
}
