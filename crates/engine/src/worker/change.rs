//! Changes that the control side makes to a plan, by jobs between two bursts.

use super::Plan;
use super::plan::Input;
use crate::clock;
use crate::drops::Drops;
use crate::forward::flows::Emission;
use crate::forward::{BridgePlan, Half, Injection, Output, Target};
use crate::port::RxQueue;
use crate::queue_key::QueueKey;
use crate::stage::egress::Egress;
use crate::stage::ingress::Ingress;
use crate::stage::setup::Setup;
use vhost_user::Event;
use virtqueue::ordering;

/// Parts of a plan.
#[derive(Default)]
pub(crate) struct Pieces {
    /// Queues to poll, up or down.
    pub(crate) inputs: Vec<Input>,
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
        let outputs = self.outputs.iter_mut().filter(|output| output.port == key.port);
        let find = |output: &'p mut Output| output.queues.get_mut(key.queue.wrapping_sub(output.first));
        match &mut { outputs }.find_map(find)?.half {
            Half::Own(egress) => Some(egress),
            Half::Shared(_) => None,
        }
    }

    /// Replaces those stages of a port that may change while its queues run, at queues that only this worker drives.
    pub(crate) fn refresh(&mut self, port: u64, setup: &Setup) {
        for input in self.inputs.iter_mut().filter(|input| input.port == port) {
            input.ingress.iter_mut().for_each(|ingress| ingress.refresh(setup, input.queue));
        }
        let outputs = self.outputs.iter_mut().filter(|output| output.port == port);
        for (queue, transmit) in outputs.flat_map(|output| (output.first..).zip(&mut output.queues)) {
            if let Half::Own(Some(egress)) = &mut transmit.half {
                egress.refresh(setup, queue);
            }
        }
    }

    /// Replaces the parts of the plan, and returns the old ones.
    pub(crate) fn replace(&mut self, Pieces { inputs, outputs, bridges }: Pieces) -> Pieces {
        self.inputs.iter().filter_map(|input| input.ingress.as_ref()).for_each(|ingress| self.ignore(&*ingress.half));
        inputs.iter().filter_map(|input| input.ingress.as_ref()).for_each(|ingress| self.watch(&*ingress.half));
        let (running, resting) = inputs.into_iter().partition(|input| input.ingress.is_some());
        let mut had = std::mem::replace(&mut self.inputs, running);
        had.append(&mut std::mem::replace(&mut self.resting, resting));
        let outputs = std::mem::replace(&mut self.outputs, outputs);
        let bridges = std::mem::replace(&mut self.bridges, bridges);
        self.settle();
        Pieces { inputs: had, outputs, bridges }
    }

    /// Makes outputs hold frames until the round ends where several bursts of a round can come together.
    fn settle(&mut self) {
        for (index, output) in self.outputs.iter_mut().enumerate() {
            let sends = |input: &&Input| match input.target {
                Target::Patch(to) => to == index,
                Target::Bridge { bridge, .. } => input.port != output.port && self.bridges[bridge].has_output(index),
                Target::Nowhere => false,
            };
            let multiplies = |input: &Input| input.ingress.as_ref().is_some_and(Ingress::multiplies);
            let bursts = |input: &Input| if multiplies(input) { 2 } else { 1 };
            output.joins = output.aggregates && self.inputs.iter().filter(sends).map(bursts).sum::<usize>() > 1;
        }
    }

    /// Sends packets of controllers through the bridge that goes by flows. Returns how many have no such bridge.
    pub(super) fn inject(&mut self, emissions: &[Emission], drops: &Drops) -> usize {
        let Some(bridge) = self.bridges.iter().find(|bridge| bridge.goes_by_flows()) else {
            return emissions.len();
        };
        let injection = Injection { emissions, outputs: &self.outputs, drops, now: clock::seconds() };
        bridge.inject(injection, &mut self.scratch);
        self.outputs.iter().for_each(Output::flush);
        ordering::before_asking();
        self.outputs.iter().for_each(Output::notify);
        0
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
    inputs.iter().position(|input| input.port == key.port && input.queue == key.queue)
}
