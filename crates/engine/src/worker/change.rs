//! A change of a plan: the only way in which the control side gives a worker something, or takes it away.
//!
//! A change is one job between two bursts. The plan keeps everything that the change does not name.

use super::Plan;
use super::input::{Input, OutputQueue};
use super::parts::{LaneInput, ParentInput};
use crate::forward::{BridgePlan, HalfStep, Output, OutputTerms, Target};
use crate::queue_id::QueueId;
use crate::sharing::{Lane, Parent};
use crate::stage::egress::Egress;
use crate::stage::ingress::Ingress;
use crate::stage::setup::Setup;
use std::collections::HashMap;
use std::sync::Arc;

/// A change of a plan, in the order in which it is made.
#[derive(Default)]
pub(crate) struct Change {
    /// Queues, of which the worker is the only one or the parent, and lanes that it polls no longer.
    pub(crate) leave: Vec<QueueId>,
    /// New outputs, by slot.
    pub(crate) outputs: Vec<(usize, Output)>,
    /// New terms of outputs that stay.
    pub(crate) terms: Vec<(usize, OutputTerms)>,
    /// Steps of queues of outputs.
    pub(crate) halves: Vec<(OutputQueue, HalfStep)>,
    /// New bridges, by slot.
    pub(crate) bridges: Vec<(usize, BridgePlan)>,
    /// Other ways for frames of queues that stay.
    pub(crate) rewired: HashMap<QueueId, Wires>,
    /// Ports whose stages change as far as they can while their queues run.
    pub(crate) refreshed: Vec<(u64, Arc<Setup>)>,
    /// Queues to poll alone.
    pub(crate) inputs: Vec<Input>,
    /// Shared queues of which the worker is the parent.
    pub(crate) parents: Vec<ParentInput>,
    /// Lanes of shared queues.
    pub(crate) lanes: Vec<LaneInput>,
    /// Ports of which the worker will poll no queue.
    pub(crate) forgotten: Vec<u64>,
    /// Whether the worker has to respond even if nothing changes.
    pub(crate) is_called: bool,
}

/// The way of a queue's frames, by slots of the plan.
pub(crate) struct Wires {
    pub(crate) target: Target,
    /// Number by which frames pick a queue.
    pub(crate) number: usize,
}

/// Parts that a plan had before a change. The control side drops it, as that may take long.
#[derive(Default)]
pub(crate) struct Removed {
    pub(crate) inputs: Vec<(QueueId, Ingress)>,
    /// Their batches should have come back ([`Plan::rest`]).
    pub(crate) parents: Vec<(QueueId, Parent)>,
    /// No frame of these is in use any more.
    pub(crate) lanes: Vec<Lane>,
    /// By queue that frames went to.
    pub(crate) halves: Vec<(QueueId, Egress)>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) bridges: Vec<BridgePlan>,
}

impl Removed {
    /// Adds the removed parts of another plan.
    pub(crate) fn add(&mut self, other: Removed) {
        let Removed { inputs, parents, lanes, halves, outputs, bridges } = other;
        self.inputs.extend(inputs);
        self.parents.extend(parents);
        self.lanes.extend(lanes);
        self.halves.extend(halves);
        self.outputs.extend(outputs);
        self.bridges.extend(bridges);
    }
}

impl Change {
    /// Reports whether it changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        let Change {
            leave,
            outputs,
            terms,
            halves,
            bridges,
            rewired,
            refreshed,
            inputs,
            parents,
            lanes,
            forgotten,
            is_called,
        } = self;
        let polls = inputs.len() + parents.len() + lanes.len() + leave.len() + rewired.len() + forgotten.len();
        !is_called && polls + outputs.len() + terms.len() + halves.len() + bridges.len() + refreshed.len() == 0
    }
}

impl Plan {
    /// Changes the plan, and returns what it no longer has.
    pub(crate) fn change(&mut self, change: Change) -> Removed {
        let mut removed = Removed::default();
        change.leave.into_iter().for_each(|id| self.leave(id, &mut removed));
        for (slot, mut output) in change.outputs {
            let running = output.running.clone();
            output.own().for_each(|(id, _)| running.set(id.queue, true));
            removed.outputs.push(set(&mut self.outputs, slot, output, Output::empty));
        }
        while self.outputs.last().is_some_and(|output| output.queues.is_empty()) {
            self.outputs.pop();
        }
        for (slot, terms) in change.terms {
            self.outputs[slot].terms = terms;
        }
        for (at, step) in change.halves {
            removed.halves.extend(self.outputs[at.output].step(at.queue, step));
        }
        for (slot, bridge) in change.bridges {
            removed.bridges.push(set(&mut self.bridges, slot, bridge, BridgePlan::empty));
        }
        if !change.rewired.is_empty() {
            for Input { route, .. } in &mut self.inputs {
                if let Some(Wires { target, number }) = change.rewired.get(&route.from) {
                    (route.target, route.number) = (*target, *number);
                }
            }
        }
        change.refreshed.iter().for_each(|(port, setup)| self.refresh(*port, setup));
        for input in change.inputs {
            self.sleeper.iter().for_each(|sleeper| sleeper.watch(&*input.ingress.half));
            self.inputs.push(input);
        }
        for input in change.parents {
            self.sleeper.iter().for_each(|sleeper| sleeper.watch(input.parent.half()));
            self.shared.parents.push(input);
        }
        for mut input in change.lanes {
            for (&output, room) in input.outputs.iter().zip(input.lane.take_handed()) {
                self.outputs[output].set_handed(Some(room));
            }
            self.shared.lanes.push(input);
        }
        self.turns.forget(&change.forgotten);
        self.settle();
        removed
    }

    /// Polls a queue or a lane no longer.
    fn leave(&mut self, id: QueueId, removed: &mut Removed) {
        if let Some(at) = self.inputs.iter().position(|input| input.route.from == id) {
            let ingress = self.inputs.remove(at).ingress;
            self.sleeper.iter().for_each(|sleeper| sleeper.ignore(&*ingress.half));
            removed.inputs.push((id, ingress));
        }
        if let Some(at) = self.shared.parents.iter().position(|input| input.queue == id) {
            let parent = self.shared.parents.remove(at).parent;
            self.sleeper.iter().for_each(|sleeper| sleeper.ignore(parent.half()));
            removed.parents.push((id, parent));
        }
        if let Some(at) = self.shared.lanes.iter().position(|input| input.route.from == id) {
            let LaneInput { lane, outputs, .. } = self.shared.lanes.remove(at);
            outputs.iter().for_each(|&output| self.outputs[output].set_handed(None));
            removed.lanes.push(lane);
        }
    }

    /// Replaces those stages of a port that may change while its queues run, at queues that only this worker drives.
    fn refresh(&mut self, port: u64, setup: &Setup) {
        for Input { route, ingress, .. } in self.inputs.iter_mut().filter(|input| input.route.from.port == port) {
            ingress.stages.refresh(setup, route.from);
        }
        for LaneInput { route, stages, .. } in
            self.shared.lanes.iter_mut().filter(|input| input.route.from.port == port)
        {
            stages.refresh(setup, route.from);
        }
        for output in self.outputs.iter_mut().filter(|output| output.port == port) {
            output.own().for_each(|(id, egress)| egress.refresh(setup, id));
        }
    }
}

/// Puts a thing into a slot, and returns the one that was there. Slots between are empty.
fn set<T>(slots: &mut Vec<T>, slot: usize, thing: T, empty: impl Fn() -> T) -> T {
    if slots.len() <= slot {
        slots.resize_with(slot + 1, empty);
    }
    std::mem::replace(&mut slots[slot], thing)
}
