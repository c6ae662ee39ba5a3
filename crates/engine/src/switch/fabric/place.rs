//! Queues go to the workers that the layout names: first what they send to, then what they poll.

use super::FabricState;
use super::changes::Changes;
use super::crew::{Crew, Shares};
use super::queue::{Receive, Transmit};
use super::slots::Steps;
use crate::forward::{BridgePlan, Half, HalfStep, Output, Target, TransmitQueue};
use crate::port::Kept;
use crate::queue_id::QueueId;
use crate::stage::ingress::Ingress;
use crate::stage::shared::Shared;
use crate::switch::layout::{BridgeKey, CrewWiring, OutputKey, Sender, Senders, Wiring};
use crate::worker::{Input, LaneInput, OutputQueue, ParentInput, Route, Wires};
use std::collections::BTreeSet;
use std::sync::Arc;

impl FabricState {
    /// Gives all workers the outputs and bridges that they need by the layout, the parked transmit halves, and other ways for frames
    /// of queues that they keep.
    pub(super) fn lay_out(&mut self) {
        let mut changes = Changes::default();
        self.mirror(&mut changes);
        (0..self.posts.len()).for_each(|worker| self.follow(worker, &mut changes));
        let parked = self.queues.iter().filter(|(_, queue)| matches!(queue.transmit, Transmit::Parked(_)));
        let parked: Vec<_> = parked.map(|(id, _)| *id).collect();
        parked.iter().for_each(|&id| self.place_transmit(id, &mut changes));
        self.rewire_all(&mut changes);
        self.finish(changes);
        for id in parked {
            if matches!(self.queues[&id].transmit, Transmit::Shared(_)) {
                self.running(id.port).set(id.queue, true);
            }
        }
        // Only now does no other worker send, nor copy, to queues that were shared.
        let mut changes = Changes::default();
        self.settle_shared(&mut changes);
        self.finish(changes);
    }

    /// Has workers poll all parked queues.
    pub(super) fn start(&mut self) {
        let mut changes = Changes::default();
        let parked = self.queues.iter().filter(|(_, queue)| matches!(queue.receive, Receive::Parked(_)));
        let parked: Vec<_> = parked.map(|(id, _)| *id).collect();
        for (id, why) in self.place_receive(&parked, &mut changes) {
            let name = self.layout.port(id.port).map_or("", |port| &port.name);
            tracing::error!("port \"{name}\" queue {} is down: {why}", id.queue);
        }
        self.finish(changes);
        self.queues.retain(|_, queue| !queue.is_down());
    }

    /// Has workers change their plans, and waits for them.
    fn finish(&self, changes: Changes) {
        for unresponsive in self.ask(changes).into_iter().filter_map(|answer| answer.wait().err()) {
            tracing::error!("{unresponsive}: what it should do has changed");
        }
    }

    /// Gives a worker the outputs and bridges that it needs now, and takes the others from it.
    pub(super) fn follow(&mut self, worker: usize, changes: &mut Changes) {
        let is_up = |id: QueueId| self.queues.get(&id).is_some_and(|queue| matches!(queue.receive, Receive::Crew(_)));
        let wanted = self.layout.of_worker(worker, is_up);
        let post = &mut self.posts[worker];
        let outputs = post.outputs.follow(&wanted.outputs);
        let bridges = post.bridges.follow(&wanted.bridges);
        let had = std::mem::replace(&mut post.polls, wanted.polls);
        let change = changes.at(worker);
        change.forgotten.extend(had.difference(&self.posts[worker].polls));
        self.follow_outputs(worker, outputs, changes);
        self.follow_bridges(worker, bridges, changes);
    }

    fn follow_outputs(
        &mut self,
        worker: usize,
        Steps { freed, added, changed }: Steps<OutputKey>,
        changes: &mut Changes,
    ) {
        let at = |state: &FabricState, key: &OutputKey| {
            state.posts[worker].outputs.get(key).map(|(slot, terms)| (slot, terms.clone()))
        };
        changes.at(worker).outputs.extend(freed.into_iter().map(|slot| (slot, Output::empty())));
        for key in added {
            let Some((slot, terms)) = at(self, &key) else { continue };
            if let Some(mut output) = self.output(worker, key) {
                output.terms = terms;
                changes.at(worker).outputs.push((slot, output));
            }
        }
        changes.at(worker).terms.extend(changed.iter().filter_map(|key| at(self, key)));
    }

    fn follow_bridges(&self, worker: usize, Steps { freed, added, changed }: Steps<BridgeKey>, changes: &mut Changes) {
        let post = &self.posts[worker];
        let plan = |key: BridgeKey| {
            let (slot, terms) = post.bridges.get(&key)?;
            let (bridge, outputs) = (terms.bridge.clone(), post.slots_by_place(&terms.outputs));
            Some((
                slot,
                if key.lane.is_some() {
                    BridgePlan::of_lane(bridge, outputs, worker)
                } else {
                    BridgePlan::new(bridge, outputs, worker)
                },
            ))
        };
        let bridges = &mut changes.at(worker).bridges;
        bridges.extend(freed.into_iter().map(|slot| (slot, BridgePlan::empty())));
        bridges.extend(added.into_iter().chain(changed).filter_map(plan));
    }

    /// Returns a new output of a worker, with the halves that it may send by.
    fn output(&mut self, worker: usize, key: OutputKey) -> Option<Output> {
        let layout = self.layout.clone();
        let port = layout.port(key.to.port)?;
        let range = key.to.only.map_or(0..port.queues.len(), |queue| queue..queue + 1);
        let first = range.start;
        let half = |queue: usize| match layout.sends(key, queue) {
            true => self.half(port.queue(queue), Sender { worker, output: key }),
            false => Half::HandedOver,
        };
        let halves: Vec<_> = range.map(half).collect();
        let queues = halves.into_iter().zip(&port.queues[first..]);
        let queues = queues.map(|(half, counters)| TransmitQueue { half, counters: counters.clone() }).collect();
        let mut output = Output::new(port.id, queues, self.posts[worker].worker.pulse.counters.clone());
        (output.first, output.running, output.drops) = (first, self.running(port.id), port.drops.queue.clone());
        output.aggregates = port.member().is_some();
        Some(output)
    }

    /// Returns the half by which an output sends to a queue.
    fn half(&mut self, id: QueueId, sender: Sender) -> Half {
        let Some(queue) = self.queues.get_mut(&id) else { return Half::Down };
        if let Transmit::Shared(shared) = &queue.transmit {
            return Half::Shared(shared.clone());
        }
        if self.layout.senders(id) != Senders::One(sender) {
            return Half::Down;
        }
        let Some(egress) = queue.take_transmit() else { return Half::Down };
        queue.transmit = Transmit::Own(sender);
        Half::Own(egress)
    }

    /// Gives a parked transmit half to those who send there.
    pub(super) fn place_transmit(&mut self, id: QueueId, changes: &mut Changes) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        match self.layout.senders(id) {
            Senders::One(sender) => {
                let Some(egress) = queue.take_transmit() else { return };
                queue.transmit = Transmit::Own(sender);
                self.step(id, sender, HalfStep::Set(Half::Own(egress)), changes);
            }
            Senders::Several => {
                let Some(egress) = queue.take_transmit() else { return };
                let shared = Arc::new(Shared::new(Some(egress)));
                queue.transmit = Transmit::Shared(shared.clone());
                for sender in self.outputs_to(id) {
                    self.step(id, sender, HalfStep::Set(Half::Shared(shared.clone())), changes);
                }
            }
            Senders::None => {}
        }
    }

    /// Returns the outputs that send to a queue.
    fn outputs_to(&self, id: QueueId) -> Vec<Sender> {
        let mut senders = Vec::new();
        for (worker, post) in self.posts.iter().enumerate() {
            let outputs = post.outputs_to(id).filter(|key| self.layout.sends(*key, id.queue));
            senders.extend(outputs.map(|output| Sender { worker, output }));
        }
        senders
    }

    /// Has a worker take a step at a queue of one of its outputs.
    pub(super) fn step(&self, id: QueueId, Sender { worker, output }: Sender, step: HalfStep, changes: &mut Changes) {
        if let Some(output) = self.posts[worker].outputs.of(&output) {
            changes.at(worker).halves.push((OutputQueue { output, queue: id.queue }, step));
        }
    }

    /// Ends the sharing of queues that only one output sends to, or none, by the layout.
    fn settle_shared(&mut self, changes: &mut Changes) {
        let shared = self.queues.iter().filter(|(_, queue)| matches!(queue.transmit, Transmit::Shared(_)));
        for id in shared.map(|(id, _)| *id).collect::<Vec<_>>() {
            let senders = self.layout.senders(id);
            let Some(queue) = self.queues.get_mut(&id).filter(|_| senders != Senders::Several) else { continue };
            let Transmit::Shared(shared) = &queue.transmit else { continue };
            let Ok(mut slot) = shared.lock() else { continue };
            let next = match (senders, slot.is_some()) {
                // Without a gap.
                (Senders::One(sender), true) => Transmit::Own(sender),
                _ => slot.take().map_or(Transmit::Down, Transmit::Parked),
            };
            drop(slot);
            queue.transmit = next;
            if let (Senders::One(sender), Transmit::Own(_)) = (senders, &queue.transmit) {
                self.step(id, sender, HalfStep::Own, changes);
            }
        }
    }

    /// Gives frames of queues that workers keep the way of the layout, where that differs.
    fn rewire_all(&mut self, changes: &mut Changes) {
        let FabricState { queues, posts, layout, .. } = self;
        for (id, queue) in queues {
            if let Receive::Polled(wiring) = &mut queue.receive
                && let Some(next) = layout.wiring(*id)
                && next != *wiring
            {
                let wires = Wires { target: posts[next.worker].target(&next.to), number: next.number };
                changes.at(next.worker).rewired.insert(*id, wires);
                *wiring = next;
            }
        }
    }

    /// Gives parked queues to the workers that poll them, as far as their ports are in the layout. Returns those that cannot be shared.
    pub(super) fn place_receive(&mut self, ids: &[QueueId], changes: &mut Changes) -> Vec<(QueueId, Kept)> {
        let (mut divided, mut failed) = (Vec::new(), Vec::new());
        for &id in ids {
            let Some(wiring) = self.layout.wiring(id) else { continue };
            let crew = self.layout.crew_wiring(id);
            let Some(queue) = self.queues.get_mut(&id) else { continue };
            let Some(ingress) = queue.take_receive() else { continue };
            match crew {
                None => {
                    queue.receive = Receive::Polled(wiring.clone());
                    let input = self.input(id, ingress, &wiring);
                    changes.at(wiring.worker).inputs.extend(input);
                }
                Some(crew) => match self.divide(id, ingress, crew) {
                    Ok(shares) => divided.push((id, shares)),
                    Err(why) => failed.push((id, why)),
                },
            }
        }
        // Only now do their lanes have outputs of their own.
        let crews: Vec<_> = divided.iter().filter_map(|(id, _)| self.crew(*id)).flat_map(|crew| &crew.lanes).collect();
        let workers: BTreeSet<_> = crews.into_iter().map(|lane| lane.worker).collect();
        workers.into_iter().for_each(|worker| self.follow(worker, changes));
        divided.into_iter().for_each(|(id, shares)| self.place_shares(id, shares, changes));
        failed
    }

    fn input(&self, id: QueueId, ingress: Ingress, wiring: &Wiring) -> Option<Input> {
        let post = &self.posts[wiring.worker];
        let route = self.route(id, post.target(&wiring.to), wiring.number)?;
        let rx_buffers_from = post.mapped(wiring.rx_buffers_from);
        Some(Input { route, ingress, rx_buffers_from, tx_in_place_via: post.mapped(wiring.tx_in_place_via) })
    }

    fn route(&self, id: QueueId, target: Target, number: usize) -> Option<Route> {
        let port = self.layout.port(id.port)?;
        Some(Route::new(id, target, number, port.counters(id).clone(), port.drops.forward.clone()))
    }

    /// Divides a queue among its workers.
    fn divide(&mut self, id: QueueId, ingress: Ingress, wiring: CrewWiring) -> Result<Shares, Kept> {
        let drops = self.layout.port(id.port).map(|port| port.drops.forward.clone()).unwrap_or_default();
        let alarms = wiring.lanes.iter().map(|lane| self.posts[lane.worker].worker.alarm()).collect();
        let (crew, shares) = Crew::divide(wiring, ingress.half, alarms, &drops)?;
        self.queue(id).receive = Receive::Crew(crew);
        Ok(shares)
    }

    /// Gives the workers of a crew their parts.
    fn place_shares(&self, id: QueueId, Shares { parent, lanes }: Shares, changes: &mut Changes) {
        let Some(wiring) = self.crew(id) else { return };
        let mut is_private = false;
        for (of, lane) in wiring.lanes.iter().zip(lanes) {
            let post = &self.posts[of.worker];
            let (target, outputs) = (post.target(&of.to), post.slots(&of.outputs));
            let stages = self.lane_stages(of.id);
            is_private |= stages.need_private_frames();
            let number = of.id.lane.unwrap_or_default();
            let route = self.route(of.id, target, number);
            changes.at(of.worker).lanes.extend(route.map(|route| LaneInput { route, lane, stages, outputs }));
        }
        if let Some((of, parent)) = wiring.parent.as_ref().zip(parent) {
            let post = &self.posts[of.worker];
            let rx_buffers_from = post.mapped(of.rx_buffers_from.filter(|_| !is_private));
            let (outputs, number) = (post.slots(&of.outputs), of.number);
            let tx_in_place_via = post.mapped(of.tx_in_place_via);
            let input = ParentInput { queue: id, parent, outputs, number, rx_buffers_from, tx_in_place_via };
            changes.at(of.worker).parents.push(input);
        }
    }

    /// Takes the outputs and bridges of lanes from the workers of a crew that is gone.
    pub(super) fn clear_lanes(&mut self, wiring: &CrewWiring) {
        let mut changes = Changes::default();
        // A reload may have ended some of them meanwhile.
        for worker in wiring
            .lanes
            .iter()
            .map(|lane| lane.worker)
            .filter(|worker| *worker < self.posts.len())
            .collect::<BTreeSet<_>>()
        {
            self.follow(worker, &mut changes);
        }
        drop(self.ask(changes));
    }
}
