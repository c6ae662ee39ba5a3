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
use crate::stage::shared::Stuck;
use std::collections::{HashMap, HashSet};
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
    /// Setups of ports, by id, whose stages change as far as they can while their queues run.
    pub(crate) refreshed: HashMap<u64, Arc<Setup>>,
    /// Queues to poll alone.
    pub(crate) inputs: Vec<Input>,
    /// Shared queues of which the worker is the parent.
    pub(crate) parents: Vec<ParentInput>,
    /// Lanes of shared queues.
    pub(crate) lanes: Vec<LaneInput>,
    /// Ports of which the worker will poll no queue.
    pub(crate) forgotten: Vec<u64>,
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
    /// Queues whose halves another worker holds, so that they could not be taken.
    pub(crate) stuck: Vec<QueueId>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) bridges: Vec<BridgePlan>,
}

impl Removed {
    /// Adds the removed parts of another plan.
    pub(crate) fn add(&mut self, other: Removed) {
        let Removed { inputs, parents, lanes, halves, stuck, outputs, bridges } = other;
        self.inputs.extend(inputs);
        self.parents.extend(parents);
        self.lanes.extend(lanes);
        self.halves.extend(halves);
        self.stuck.extend(stuck);
        self.outputs.extend(outputs);
        self.bridges.extend(bridges);
    }
}

impl Change {
    /// Reports whether it changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        let Change { leave, outputs, terms, halves, bridges, rewired, refreshed, inputs, parents, lanes, forgotten } =
            self;
        let polls = inputs.len() + parents.len() + lanes.len() + leave.len() + rewired.len() + forgotten.len();
        polls + outputs.len() + terms.len() + halves.len() + bridges.len() + refreshed.len() == 0
    }
}

impl Plan {
    /// Changes the plan, and returns what it no longer has.
    pub(crate) fn change(&mut self, change: Change) -> Removed {
        let mut removed = Removed::default();
        if !change.leave.is_empty() {
            self.leave(&change.leave.into_iter().collect(), &mut removed);
        }
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
            let output = &mut self.outputs[at.output];
            match output.step(at.queue, step) {
                Ok(taken) => removed.halves.extend(taken),
                Err(Stuck) => removed.stuck.push(QueueId::new(output.port, at.queue)),
            }
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
        if !change.refreshed.is_empty() {
            self.refresh(&change.refreshed);
        }
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

    /// Polls these queues and lanes no longer.
    fn leave(&mut self, gone: &HashSet<QueueId>, removed: &mut Removed) {
        let sleeper = self.sleeper.as_ref();
        for Input { route, ingress, .. } in self.inputs.extract_if(.., |input| gone.contains(&input.route.from)) {
            sleeper.iter().for_each(|sleeper| sleeper.ignore(&*ingress.half));
            removed.inputs.push((route.from, ingress));
        }
        for ParentInput { queue, parent, .. } in self.shared.parents.extract_if(.., |input| gone.contains(&input.queue))
        {
            sleeper.iter().for_each(|sleeper| sleeper.ignore(parent.half()));
            removed.parents.push((queue, parent));
        }
        for LaneInput { lane, outputs, .. } in
            self.shared.lanes.extract_if(.., |input| gone.contains(&input.route.from))
        {
            outputs.iter().for_each(|&output| self.outputs[output].set_handed(None));
            removed.lanes.push(lane);
        }
    }

    /// Replaces those stages of ports that may change while their queues run, at queues that only this worker drives.
    fn refresh(&mut self, setups: &HashMap<u64, Arc<Setup>>) {
        for Input { route, ingress, .. } in &mut self.inputs {
            let setup = setups.get(&route.from.port);
            setup.into_iter().for_each(|setup| ingress.stages.refresh(setup, route.from));
        }
        for LaneInput { route, stages, .. } in &mut self.shared.lanes {
            let setup = setups.get(&route.from.port);
            setup.into_iter().for_each(|setup| stages.refresh(setup, route.from));
        }
        for output in &mut self.outputs {
            let Some(setup) = setups.get(&output.port) else { continue };
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
