//! Changes that the control side makes to a plan, by jobs between two bursts.

use super::Plan;
use super::input::Input;
use super::parts::{LaneInput, SharedInputs};
use super::route::{Route, Routing};
use crate::answers::Delivery;
use crate::clock;
use crate::drops::Drops;
use crate::forward::flows::Emission;
use crate::forward::{BridgePlan, Half, Injection, Output, Target};
use crate::port::RxQueue;
use crate::queue_key::QueueKey;
use crate::sharing::{Lane, Parent};
use crate::stage::egress::Egress;
use crate::stage::ingress::{Ingress, IngressStages};
use crate::stage::setup::Setup;
use packet::{MAX_BURST, Segment};
use vhost_user::Event;
use virtqueue::ordering;

/// Parts of a plan.
#[derive(Default)]
pub(crate) struct Pieces {
    /// Queues to poll, up or down.
    pub(crate) inputs: Vec<Input>,
    /// Parts of queues that several workers share, up or down.
    pub(crate) shared: SharedInputs,
    /// Ports to send to.
    pub(crate) outputs: Vec<Output>,
    /// Bridges of these ports.
    pub(crate) bridges: Vec<BridgePlan>,
}

impl Plan {
    /// Starts polling a queue.
    pub(crate) fn attach_receive(&mut self, key: QueueKey, ingress: Ingress) {
        drop(self.detach_receive(key));
        let Some(at) = position(&self.resting, key) else { return };
        self.watch(&*ingress.half);
        let input = self.resting.swap_remove(at);
        self.inputs.push(Input { ingress: Some(ingress), ..input });
        self.settle();
    }

    /// Stops polling a queue.
    pub(crate) fn detach_receive(&mut self, key: QueueKey) -> Option<Ingress> {
        let mut input = self.inputs.remove(position(&self.inputs, key)?);
        let ingress = input.ingress.take();
        self.resting.push(input);
        self.settle();
        ingress.inspect(|ingress| self.ignore(&*ingress.half))
    }

    /// Becomes the parent of a shared queue.
    pub(crate) fn attach_parent(&mut self, key: QueueKey, parent: Parent) {
        drop(self.detach_parent(key));
        let Some(at) = self.shared.parents.iter().position(|input| input.queue == key) else { return };
        self.watch(parent.half());
        self.shared.parents[at].parent = Some(parent);
        self.settle();
    }

    /// Returns a parent that this worker was. Its batches should have come back ([`Plan::rest`]).
    pub(crate) fn detach_parent(&mut self, key: QueueKey) -> Option<Parent> {
        let parent = self.parent(key)?.take()?;
        self.ignore(parent.half());
        self.settle();
        Some(parent)
    }

    fn parent(&mut self, key: QueueKey) -> Option<&mut Option<Parent>> {
        let input = self.shared.parents.iter_mut().find(|input| input.queue == key)?;
        Some(&mut input.parent)
    }

    /// Receives nothing more from a shared queue, so that all its batches come back. Reports whether they have.
    pub(crate) fn rest(&mut self, key: QueueKey) -> bool {
        self.parent(key).and_then(Option::as_mut).is_none_or(Parent::rest)
    }

    /// Starts processing frames of a shared queue.
    pub(crate) fn attach_lane(&mut self, key: QueueKey, mut lane: Lane) {
        drop(self.detach_lane(key));
        let Some(input) = self.shared.lanes.iter_mut().find(|input| input.route.from == key) else { return };
        for (output, room) in input.outputs.iter().zip(lane.take_handed()) {
            self.outputs[*output].set_handed(Some(room));
        }
        input.lane = Some(lane);
        self.settle();
    }

    /// Stops processing frames of a shared queue. No frame of it is in use after this.
    pub(crate) fn detach_lane(&mut self, key: QueueKey) -> Option<Lane> {
        let input = self.shared.lanes.iter_mut().find(|input| input.route.from == key)?;
        let lane = input.lane.take()?;
        for output in &input.outputs {
            self.outputs[*output].set_handed(None);
        }
        self.settle();
        Some(lane)
    }

    /// Replaces the kick descriptor of a queue that is polled.
    pub(crate) fn rewire(&mut self, key: QueueKey, kick: Option<Event>) {
        if let Some(mut ingress) = self.detach_receive(key) {
            if let Some(half) = ingress.half.life_cycle() {
                half.rewire(kick);
            }
            self.attach_receive(key, ingress);
        }
    }

    /// Returns a queue that only this worker sends to, and which may be down.
    pub(crate) fn own_transmit<'p>(&'p mut self, key: QueueKey) -> Option<&'p mut Option<Egress>> {
        let mut outputs = self.outputs.iter_mut().filter(|output| output.port == key.port);
        let own = |output: &'p mut Output| match &mut output.queues.get_mut(key.queue.wrapping_sub(output.first))?.half
        {
            Half::Own(egress) => Some(egress),
            Half::Shared(_) | Half::HandedOver => None,
        };
        outputs.find_map(own)
    }

    /// Replaces those stages of a port that may change while its queues run, at queues that only this worker drives.
    pub(crate) fn refresh(&mut self, port: u64, setup: &Setup) {
        for Input { route, ingress, .. } in self.inputs.iter_mut().filter(|input| input.route.from.port == port) {
            ingress.iter_mut().for_each(|ingress| ingress.stages.refresh(setup, route.from.queue));
        }
        for LaneInput { route, stages, .. } in
            self.shared.lanes.iter_mut().filter(|input| input.route.from.port == port)
        {
            stages.refresh(setup, route.from.queue);
        }
        let outputs = self.outputs.iter_mut().filter(|output| output.port == port);
        for (queue, transmit) in outputs.flat_map(|output| (output.first..).zip(&mut output.queues)) {
            if let Half::Own(Some(egress)) = &mut transmit.half {
                egress.refresh(setup, queue);
            }
        }
    }

    /// Replaces the parts of the plan, and returns the old ones.
    pub(crate) fn replace(&mut self, Pieces { inputs, shared, outputs, bridges }: Pieces) -> Pieces {
        self.inputs.iter().filter_map(|input| input.ingress.as_ref()).for_each(|ingress| self.ignore(&*ingress.half));
        let parents: Vec<_> = self.shared.parents.iter().map(|input| input.queue).collect();
        // Their halves are watched by this worker only.
        let mut had_parents: Vec<_> = parents.into_iter().map(|key| (key, self.detach_parent(key))).collect();
        inputs.iter().filter_map(|input| input.ingress.as_ref()).for_each(|ingress| self.watch(&*ingress.half));
        for parent in shared.parents.iter().filter_map(|input| input.parent.as_ref()) {
            self.watch(parent.half());
        }
        let (running, resting) = inputs.into_iter().partition(|input| input.ingress.is_some());
        let mut had = std::mem::replace(&mut self.inputs, running);
        had.append(&mut std::mem::replace(&mut self.resting, resting));
        let outputs = std::mem::replace(&mut self.outputs, outputs);
        let bridges = std::mem::replace(&mut self.bridges, bridges);
        let mut had_shared = std::mem::replace(&mut self.shared, shared);
        for (input, (_, parent)) in had_shared.parents.iter_mut().zip(&mut had_parents) {
            input.parent = parent.take();
        }
        self.settle();
        self.turns.keep(&self.resting);
        Pieces { inputs: had, shared: had_shared, outputs, bridges }
    }

    /// Gives each port its turn, and makes outputs hold frames until the round ends where several bursts of a round can come
    /// together.
    fn settle(&mut self) {
        self.turns.assign(&self.inputs);
        if !self.outputs.iter().any(|output| output.aggregates) {
            return;
        }
        let bridges = &self.bridges;
        let sends = |route: &Route, index: usize, port: u64| match route.target {
            Target::Patch(to) => to == index,
            Target::Bridge { bridge, .. } => route.from.port != port && bridges[bridge].has_output(index),
            Target::Nowhere => false,
        };
        let bursts = |stages: &IngressStages| if stages.multiplies() { 2 } else { 1 };
        for (index, output) in self.outputs.iter_mut().enumerate() {
            let inputs = self.inputs.iter().filter(|input| sends(&input.route, index, output.port));
            let inputs = inputs.map(|input| input.ingress.as_ref().map_or(1, |ingress| bursts(&ingress.stages)));
            let lanes = self.shared.lanes.iter().filter(|input| sends(&input.route, index, output.port));
            let lanes = lanes.map(|input| bursts(&input.stages));
            // A parent releases several batches in a round.
            let parents = self.shared.parents.iter().filter(|input| input.outputs.contains(&index)).map(|_| 2);
            output.joins = output.aggregates && inputs.chain(lanes).chain(parents).sum::<usize>() > 1;
        }
    }

    /// Sends packets of controllers through the bridge that goes by flows. Returns how many have no such bridge.
    pub(super) fn inject(&mut self, emissions: &[Emission], drops: &Drops) -> usize {
        let Some(bridge) = self.bridges.iter().find(|bridge| bridge.emits()) else {
            return emissions.len();
        };
        let injection = Injection { emissions, outputs: &self.outputs, drops, now: clock::seconds() };
        bridge.inject(injection, &mut self.scratch);
        self.send_out();
        0
    }

    /// Forwards frames as if a queue had received them, behind its stages: or another queue of its port, or a lane of one. Does nothing if
    /// this worker has none, or if others did so already.
    pub(crate) fn receive_as(&mut self, key: QueueKey, answers: &Delivery) {
        let mut routes =
            self.inputs.iter().map(|input| &input.route).chain(self.shared.lanes.iter().map(|lane| &lane.route));
        let Some(route) = routes.find(|route| route.from.port == key.port) else { return };
        let Some(frames) = answers.take() else { return };
        let (outputs, bridges, counters) = (&self.outputs, &self.bridges, &self.counters);
        let routing = Routing { outputs, bridges, now: clock::seconds(), counters };
        for some in frames.chunks(MAX_BURST) {
            let mut burst = self.storage.start();
            some.iter().for_each(|frame| burst.push(Segment::from(&frame[..])));
            routing.forward(route, burst.frames(), burst.bytes(), &mut self.scratch);
        }
        self.send_out();
    }

    /// Sends what outputs hold, and notifies receivers.
    fn send_out(&self) {
        self.outputs.iter().for_each(Output::flush);
        ordering::before_asking();
        self.outputs.iter().for_each(Output::notify);
    }

    /// Watches this queue while asleep.
    fn watch(&self, half: &dyn RxQueue) {
        if let (Some(sleeper), Some(fd)) = (&self.sleeper, half.wake_fd()) {
            sleeper.watch(fd);
        }
    }

    /// Stops watching this queue.
    fn ignore(&self, half: &dyn RxQueue) {
        if let (Some(sleeper), Some(fd)) = (&self.sleeper, half.wake_fd()) {
            sleeper.ignore(fd);
        }
    }
}

fn position(inputs: &[Input], key: QueueKey) -> Option<usize> {
    inputs.iter().position(|input| input.route.from == key)
}
