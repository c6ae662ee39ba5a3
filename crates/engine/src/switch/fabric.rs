//! Workers and what they do: the one place where plans are put together and changed.
//!
//! Everything here happens on control threads, one at a time, under one lock; a worker takes part only by running the
//! jobs that it is left, between two bursts.

use super::layout::{Domain, Layout};
use super::shared::PortShared;
use crate::drops::Reason;
use crate::forward::bridge::BridgePlan;
use crate::forward::flows::{Datapath, Emission};
use crate::forward::{Half, Output, Target, TransmitQueue};
use crate::port::record::{Recorder, record_received, record_sent};
use crate::port::{Receive, Transmit};
use crate::spec::WorkerSpec;
use crate::worker::{Input, Plan, Worker};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use virtqueue::{BurstStorage, MAX_BURST, Segment, ordering};

/// Names a queue pair of a port: the port's id and the queue's index.
pub(super) type QueueKey = (u64, usize);
pub(super) type ReceiveHalf = Box<dyn Receive>;
pub(super) type TransmitHalf = Box<dyn Transmit>;
type SharedHalf = Arc<Mutex<Option<TransmitHalf>>>;

/// The workers, and where every half of a queue is.
#[derive(Default)]
pub(super) struct Fabric {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    workers: Vec<(WorkerSpec, Worker)>,
    /// Halves to which several workers send.
    shared: HashMap<QueueKey, SharedHalf>,
    /// Halves that no worker uses at present.
    parked_receive: HashMap<QueueKey, ReceiveHalf>,
    parked_transmit: HashMap<QueueKey, TransmitHalf>,
    /// What records the frames of ports, by id.
    recorders: HashMap<u64, Recorder>,
}

impl Fabric {
    /// Lets a worker poll a queue that is up.
    pub(super) fn attach_receive(&self, key: QueueKey, mut half: ReceiveHalf) {
        let mut state = self.state.lock().unwrap();
        record_received(&mut half, state.recorders.get(&key.0));
        if let Some(half) = state.visit(half, move |plan, half| match input(plan, key) {
            Some(input) => {
                input.half = Some(half);
                None
            }
            None => Some(half),
        }) {
            state.parked_receive.insert(key, half);
        }
    }

    /// Takes a queue from its worker: when this returns, nothing of it is on its way any more.
    pub(super) fn detach_receive(&self, key: QueueKey) -> Option<ReceiveHalf> {
        let mut state = self.state.lock().unwrap();
        let parked = state.parked_receive.remove(&key);
        parked.or_else(|| state.search(move |plan| input(plan, key)?.half.take()))
    }

    /// Lets workers send to a queue that is up.
    pub(super) fn attach_transmit(&self, key: QueueKey, mut half: TransmitHalf) {
        let mut state = self.state.lock().unwrap();
        record_sent(&mut half, state.recorders.get(&key.0));
        if let Some(shared) = state.shared.get(&key) {
            *shared.lock().unwrap() = Some(half);
            return;
        }
        if let Some(half) = state.visit(half, move |plan, half| match output(plan, key) {
            Some(slot) => {
                *slot = Some(half);
                None
            }
            None => Some(half),
        }) {
            state.parked_transmit.insert(key, half);
        }
    }

    /// As [`Fabric::detach_receive`], for the other half.
    pub(super) fn detach_transmit(&self, key: QueueKey) -> Option<TransmitHalf> {
        let mut state = self.state.lock().unwrap();
        if let Some(shared) = state.shared.get(&key) {
            // A worker holds this lock only while it sends a burst.
            return shared.lock().unwrap().take();
        }
        let parked = state.parked_transmit.remove(&key);
        parked.or_else(|| state.search(move |plan| output(plan, key)?.take()))
    }

    /// Has the frames of a port recorded from now on, or no longer; returns what recorded them until now. Workers go on
    /// meanwhile.
    pub(super) fn record(&self, port: u64, recorder: Option<Recorder>) -> Option<Recorder> {
        let state = &mut *self.state.lock().unwrap();
        let ended = match recorder.clone() {
            Some(recorder) => state.recorders.insert(port, recorder),
            None => state.recorders.remove(&port),
        };
        let of_port = |key: &QueueKey| key.0 == port;
        for (_, half) in state.parked_receive.iter_mut().filter(|(key, _)| of_port(key)) {
            record_received(half, recorder.as_ref());
        }
        for (_, half) in state.parked_transmit.iter_mut().filter(|(key, _)| of_port(key)) {
            record_sent(half, recorder.as_ref());
        }
        for (_, shared) in state.shared.iter().filter(|(key, _)| of_port(key)) {
            shared.lock().unwrap().iter_mut().for_each(|half| record_sent(half, recorder.as_ref()));
        }
        for (_, worker) in &state.workers {
            let recorder = recorder.clone();
            worker.call(move |plan| {
                for input in plan.inputs.iter_mut().filter(|input| input.port == port) {
                    input.half.iter_mut().for_each(|half| record_received(half, recorder.as_ref()));
                }
                for queue in plan.outputs.iter_mut().filter(|output| output.port == port).flat_map(|o| &mut o.queues) {
                    if let Half::Own(Some(half)) = &mut queue.half {
                        record_sent(half, recorder.as_ref());
                    }
                }
            });
        }
        ended
    }

    /// What records at present.
    pub(super) fn recorders(&self) -> Vec<Recorder> {
        self.state.lock().unwrap().recorders.values().cloned().collect()
    }

    /// Starts those of the `wanted` workers that are not there yet. They have nothing to do until
    /// [`Fabric::arrange`] is given them.
    pub(super) fn hire(&self, wanted: &[WorkerSpec]) -> std::io::Result<Vec<Option<Worker>>> {
        let state = self.state.lock().unwrap();
        let there =
            |index: usize, spec: &WorkerSpec| state.workers.get(index).is_some_and(|(had, _)| had.runs_like(spec));
        let hire = |(index, spec)| {
            if there(index, spec) { Ok(None) } else { Worker::spawn(index, spec).map(Some) }
        };
        wanted.iter().enumerate().map(hire).collect()
    }

    /// Makes the workers do what `layout` says, with the halves that they have; queues of ports that are not in it
    /// are dropped. `hired` is what [`Fabric::hire`] says of the layout's workers. Frames wait in their queues meanwhile,
    /// and nobody forwards while `pause` runs.
    pub(super) fn arrange(&self, layout: &Layout, hired: Vec<Option<Worker>>, pause: impl FnOnce()) {
        let mut state = self.state.lock().unwrap();
        let mut halves = state.collect();
        pause();
        state.staff(&layout.workers, hired);
        halves.keep(|id| layout.ports.iter().any(|p| p.id == id));
        let plans: Vec<_> =
            (0..layout.workers.len()).map(|worker| state.assemble(layout, worker, &mut halves)).collect();
        state.parked_receive = halves.receive;
        state.parked_transmit = halves.transmit;
        for ((_, worker), (inputs, outputs, bridges)) in state.workers.iter().zip(plans) {
            worker.call(move |plan| {
                plan.inputs = inputs;
                plan.outputs = outputs;
                plan.bridges = bridges;
            });
        }
    }

    /// Sends packets of controllers, by any worker of the bridge; how many there was no worker for.
    pub(super) fn inject(&self, emissions: Vec<Emission>, datapath: &Arc<Datapath>) -> usize {
        let state = self.state.lock().unwrap();
        let datapath = datapath.clone();
        let left = state.visit(emissions, move |plan, emissions| plan.inject(emissions, &datapath.drops));
        left.map_or(0, |left| left.len())
    }

    /// Sends frames by a queue of `port` as they are: not joined, and in no tunnel.
    pub(super) fn send(&self, port: &PortShared, queue: usize, frames: Vec<Vec<u8>>) {
        let key = (port.id, queue);
        let (counters, drops) = (port.queues[queue].clone(), port.drops.clone());
        let send = move |half: &dyn Transmit, frames: &[Vec<u8>]| {
            let mut storage = Box::<BurstStorage>::default();
            for some in frames.chunks(MAX_BURST) {
                let mut burst = storage.start();
                some.iter().for_each(|frame| burst.push(Segment::from(&frame[..])));
                let sent = half.transmit_bare(burst.frames());
                counters.sent.packets.add(sent.frames.into());
                counters.sent.bytes.add(sent.bytes);
                sent.count_drops(some.len(), &drops);
            }
            ordering::before_asking();
            half.notify();
        };
        let state = self.state.lock().unwrap();
        let left = if let Some(shared) = state.shared.get(&key) {
            let half = shared.lock().unwrap();
            half.as_deref().map(|half| send(half, &frames)).map_or(Some(frames), |()| None)
        } else if let Some(half) = state.parked_transmit.get(&key) {
            send(&**half, &frames);
            None
        } else {
            state.visit(frames, move |plan, frames| match output(plan, key) {
                Some(Some(half)) => {
                    send(&**half, &frames);
                    None
                }
                _ => Some(frames),
            })
        };
        if let Some(left) = left {
            port.drops.add(Reason::Down, left.len() as u64);
        }
    }

    /// Looks at all workers.
    pub(super) fn each_worker(&self, mut look: impl FnMut(usize, &WorkerSpec, &Worker)) {
        let state = self.state.lock().unwrap();
        state.workers.iter().enumerate().for_each(|(i, (spec, worker))| look(i, spec, worker));
    }
}

fn input(plan: &mut Plan, (port, queue): QueueKey) -> Option<&mut Input> {
    plan.inputs.iter_mut().find(|i| i.port == port && i.queue == queue)
}

fn output(plan: &mut Plan, (port, queue): QueueKey) -> Option<&mut Option<TransmitHalf>> {
    let output = plan.outputs.iter_mut().find(|o| o.port == port)?;
    match &mut output.queues.get_mut(queue)?.half {
        Half::Own(half) => Some(half),
        Half::Shared(_) => None,
    }
}

/// Whether an input may send to the output of this index.
fn sends(input: &Input, output: usize, (_, outputs, bridges): &Pieces) -> bool {
    match input.target {
        Target::Patch(to) => to == output,
        Target::Bridge { bridge, .. } => {
            input.port != outputs[output].port && bridges[bridge].outputs.contains(&output)
        }
        Target::Nowhere => false,
    }
}

/// Halves on their way from old plans to new ones.
struct Halves {
    receive: HashMap<QueueKey, ReceiveHalf>,
    transmit: HashMap<QueueKey, TransmitHalf>,
}

impl Halves {
    fn keep(&mut self, port: impl Fn(u64) -> bool) {
        self.receive.retain(|key, _| port(key.0));
        self.transmit.retain(|key, _| port(key.0));
    }
}

type Pieces = (Vec<Input>, Vec<Output>, Vec<BridgePlan>);

impl State {
    /// Offers `thing` to one worker after the other until one of them takes it.
    fn visit<T: Send + 'static>(
        &self,
        mut thing: T,
        take: impl Fn(&mut Plan, T) -> Option<T> + Clone + Send + 'static,
    ) -> Option<T> {
        for (_, worker) in &self.workers {
            let take = take.clone();
            // A worker only goes when we end it, with nothing left to offer it.
            thing = worker.call(move |plan| take(plan, thing))??;
        }
        Some(thing)
    }

    /// Asks one worker after the other until one of them has it.
    fn search<T: Send + 'static>(&self, find: impl Fn(&mut Plan) -> Option<T> + Clone + Send + 'static) -> Option<T> {
        self.workers.iter().find_map(|(_, worker)| worker.call(find.clone())?)
    }

    /// Takes every half from the workers, who then have nothing to do.
    fn collect(&mut self) -> Halves {
        let mut halves = Halves {
            receive: std::mem::take(&mut self.parked_receive),
            transmit: std::mem::take(&mut self.parked_transmit),
        };
        for (_, worker) in &self.workers {
            let taken = worker.call(|plan| (std::mem::take(&mut plan.inputs), std::mem::take(&mut plan.outputs)));
            let Some((inputs, outputs)) = taken else { continue };
            for input in inputs {
                halves.receive.extend(input.half.map(|half| ((input.port, input.queue), half)));
            }
            for output in outputs {
                for (queue, transmit) in output.queues.into_iter().enumerate() {
                    if let Half::Own(Some(half)) = transmit.half {
                        halves.transmit.insert((output.port, queue), half);
                    }
                }
            }
        }
        for (key, shared) in self.shared.drain() {
            halves.transmit.extend(shared.lock().unwrap().take().map(|half| (key, half)));
        }
        halves
    }

    /// Ends workers that are no longer wanted, and takes on those that were hired.
    fn staff(&mut self, wanted: &[WorkerSpec], hired: Vec<Option<Worker>>) {
        let mut had = std::mem::take(&mut self.workers).into_iter().map(|(_, worker)| Some(worker)).collect::<Vec<_>>();
        for ((index, spec), hired) in wanted.iter().enumerate().zip(hired) {
            let worker = hired.or_else(|| had.get_mut(index)?.take());
            self.workers.extend(worker.map(|worker| (spec.clone(), worker)));
        }
    }

    /// Puts together what `worker` does.
    fn assemble(&mut self, layout: &Layout, worker: usize, halves: &mut Halves) -> Pieces {
        let mut pieces = (Vec::new(), Vec::new(), Vec::new());
        for (port, queue) in layout.polled_by(worker) {
            let shared = &layout.ports[port];
            let key = (shared.id, queue);
            let target = match layout.domain_of(port) {
                Some(Domain::Patch(pair)) => {
                    let other = if pair[0] == port { pair[1] } else { pair[0] };
                    Target::Patch(self.output((layout, worker), other, &mut pieces.1, halves))
                }
                Some(Domain::Bridge { bridge, members }) => {
                    let known = pieces.2.iter().position(|b: &BridgePlan| Arc::ptr_eq(&b.bridge, bridge));
                    let index = known.unwrap_or_else(|| {
                        let outputs =
                            members.iter().map(|&m| self.output((layout, worker), m, &mut pieces.1, halves)).collect();
                        let flows = bridge.flows.as_ref().map(|numbered| numbered.plan(worker));
                        pieces.2.push(BridgePlan { bridge: bridge.clone(), outputs, flows });
                        pieces.2.len() - 1
                    });
                    let from = members.iter().position(|&m| m == port).unwrap_or_default();
                    Target::Bridge { bridge: index, from }
                }
                None => Target::Nowhere,
            };
            pieces.0.push(Input {
                port: shared.id,
                queue,
                half: halves.receive.remove(&key),
                target,
                tunnel: shared.decapsulate(queue).map(Box::new),
                split: shared.split(queue).map(Box::new),
                lender: layout
                    .lender(port)
                    .map(|guest| (self.output((layout, worker), guest, &mut pieces.1, halves), queue)),
                keeper: layout
                    .keeper(port)
                    .map(|out| (self.output((layout, worker), out, &mut pieces.1, halves), queue)),
                counters: shared.queues[queue].clone(),
                drops: shared.drops.clone(),
            });
        }
        for index in 0..pieces.1.len() {
            // What is split is several bursts of its own.
            let bursts = |input: &Input| if input.split.is_some() { 2 } else { 1 };
            let bursts: usize = pieces.0.iter().filter(|input| sends(input, index, &pieces)).map(bursts).sum();
            pieces.1[index].joins &= bursts > 1;
        }
        pieces
    }

    /// The index in `outputs` of the one to `port`, which is made if it is not there.
    fn output(
        &mut self,
        (layout, worker): (&Layout, usize),
        port: usize,
        outputs: &mut Vec<Output>,
        halves: &mut Halves,
    ) -> usize {
        let shared: &Arc<PortShared> = &layout.ports[port];
        if let Some(index) = outputs.iter().position(|o| o.port == shared.id) {
            return index;
        }
        let several = layout.senders_to(port) > 1;
        let queues = shared.queues.iter().enumerate().map(|(queue, counters)| {
            let key = (shared.id, queue);
            let half = if several {
                let half = self.shared.entry(key).or_insert_with(|| Arc::new(Mutex::new(halves.transmit.remove(&key))));
                Half::Shared(half.clone())
            } else {
                Half::Own(halves.transmit.remove(&key))
            };
            TransmitQueue::new(half, counters.clone())
        });
        // A mapped port sends chains from where they lie, and has them returned by the queue that they came from.
        let joins = shared.member().is_some();
        let one = (joins && shared.mapping().is_none()).then_some(worker);
        let (queues, drops) = (queues.collect(), shared.drops.clone());
        outputs.push(Output { port: shared.id, queues, drops, one, joins });
        outputs.len() - 1
    }
}
