//! A worker's plan by the layout, from the halves that exist.

use super::crew::AllParts;
use super::{FabricState, Halves};
use crate::forward::bridge::Bridge;
use crate::forward::{BridgePlan, Half, Output, Target, TransmitQueue};
use crate::sharing::Lane;
use crate::spec::SharingSpec;
use crate::switch::layout::{Destination, Domain, Layout, QueueIndex, Queues};
use crate::worker::{Input, LaneInput, OutputQueue, ParentInput, Pieces, Route};
use std::sync::Arc;

impl FabricState {
    /// Assembles the plan of `worker`.
    pub(super) fn assemble(
        &mut self,
        layout: &Layout,
        worker: usize,
        halves: &mut Halves,
        parts: &mut AllParts,
    ) -> Pieces {
        let mut assembly = Assembly { state: self, layout, worker, halves, parts, pieces: Pieces::default() };
        for from in layout.polled_by(worker) {
            match layout.sharing(from.port) {
                None => assembly.add_input(from),
                Some(sharing) if sharing.has_parent() => assembly.add_parent(from),
                Some(_) => {}
            }
        }
        layout.lanes_of(worker).for_each(|(queue, lane)| assembly.add_lane(queue, lane));
        assembly.pieces
    }
}

/// A plan that is being assembled.
struct Assembly<'a> {
    state: &'a mut FabricState,
    layout: &'a Layout,
    worker: usize,
    /// Halves that no plan has yet.
    halves: &'a mut Halves,
    /// Parts of shared queues that no plan has yet.
    parts: &'a mut AllParts,
    pieces: Pieces,
}

impl Assembly<'_> {
    /// Adds a queue that the worker polls.
    fn add_input(&mut self, from: QueueIndex) {
        let layout = self.layout;
        let shared = &layout.ports[from.port];
        let key = shared.key(from.queue);
        self.state.pollers.insert(key, self.worker);
        let target = self.target(from);
        let ingress = self.halves.receive.remove(&key);
        let (rx_buffers_from, tx_in_place_via) = (layout.rx_buffers_from(from), layout.tx_in_place_via(from));
        // Its frames go there by the same output.
        let only = if let Destination::Port(to) = layout.destination(from) { to.only } else { None };
        let mut mapped =
            |to: QueueIndex| OutputQueue { output: self.output(Queues { port: to.port, only }), queue: to.queue };
        let route = Route {
            from: key,
            target,
            number: rx_buffers_from.or(tx_in_place_via).map_or(key.queue, |mapped| mapped.queue),
            counters: shared.queues[from.queue].clone(),
            drops: shared.drops.forward.clone(),
        };
        let rx_buffers_from = rx_buffers_from.map(&mut mapped);
        let tx_in_place_via = tx_in_place_via.map(&mut mapped);
        self.pieces.inputs.push(Input { route, ingress, rx_buffers_from, tx_in_place_via });
    }

    /// Returns where the frames of a queue go, by outputs that send.
    fn target(&mut self, from: QueueIndex) -> Target {
        match self.layout.destination(from) {
            Destination::Port(to) => Target::Patch(self.output(to)),
            Destination::Bridge(bridge, members) => {
                Target::Bridge { bridge: self.bridge(bridge, members), from: place(members, from) }
            }
            Destination::Nowhere => Target::Nowhere,
        }
    }

    /// Adds a shared queue whose parent the worker is.
    fn add_parent(&mut self, queue: QueueIndex) {
        let layout = self.layout;
        let key = layout.ports[queue.port].key(queue.queue);
        self.state.pollers.insert(key, self.worker);
        let outputs = match self.target(queue) {
            Target::Patch(output) => vec![output],
            Target::Bridge { bridge, .. } => self.pieces.bridges[bridge].outputs().to_vec(),
            Target::Nowhere => Vec::new(),
        };
        let mapped = layout.rx_buffers_from(queue);
        let number = mapped.map_or(queue.queue, |mapped| mapped.queue);
        let only = if let Destination::Port(to) = layout.destination(queue) { to.only } else { None };
        // Lanes have the same stages.
        let is_private =
            self.state.lane_stages(layout.ports[queue.port].lane_key(queue.queue, 0)).need_private_frames();
        let rx_buffers_from = mapped
            .filter(|_| !is_private)
            .map(|to| OutputQueue { output: self.output(Queues { port: to.port, only }), queue: to.queue });
        let parent = self.parts.parents.remove(&key);
        self.pieces.shared.parents.push(ParentInput { queue: key, parent, outputs, number, rx_buffers_from });
    }

    /// Adds a lane of a shared queue.
    fn add_lane(&mut self, queue: QueueIndex, lane: usize) {
        let layout = self.layout;
        let shared = &layout.ports[queue.port];
        let key = shared.lane_key(queue.queue, lane);
        let has_parent = layout.sharing(queue.port).is_some_and(SharingSpec::has_parent);
        let (target, outputs) = match layout.destination(queue) {
            // Each worker sends by itself.
            _ if !has_parent => (self.target(queue), Vec::new()),
            Destination::Port(to) => {
                let output = self.lane_output(queue, lane, to);
                (Target::Patch(output), vec![output])
            }
            Destination::Bridge(bridge, members) => {
                let outputs: Vec<_> =
                    members.iter().map(|&port| self.lane_output(queue, lane, Queues::all(port))).collect();
                self.pieces.bridges.push(BridgePlan::new(bridge.clone(), outputs.clone(), self.worker, false));
                let bridge = self.pieces.bridges.len() - 1;
                (Target::Bridge { bridge, from: place(members, queue) }, outputs)
            }
            Destination::Nowhere => (Target::Nowhere, Vec::new()),
        };
        let (counters, drops) = (shared.lane(queue.queue, lane).clone(), shared.drops.forward.clone());
        let mut part = self.parts.lanes.remove(&key);
        for (&output, room) in outputs.iter().zip(part.iter_mut().flat_map(Lane::take_handed)) {
            self.pieces.outputs[output].set_handed(Some(room));
        }
        let route = Route { from: key, target, number: lane, counters, drops };
        let stages = self.state.lane_stages(key);
        self.pieces.shared.lanes.push(LaneInput { route, lane: part, stages, outputs });
    }

    /// Adds an output of a lane. Returns its index.
    fn lane_output(&mut self, from: QueueIndex, lane: usize, to: Queues) -> usize {
        let sends = |queue| self.layout.lane_sends(from.port, lane, queue);
        let shared = &self.layout.ports[to.port];
        let queues = to.only.map_or(0..shared.queues.len(), |queue| queue..queue + 1);
        let half = |queue| (queue, sends(queue));
        let queues: Vec<_> = queues.map(half).collect();
        let transmit = |(queue, sends)| match sends {
            true => self.transmit_queue(QueueIndex { port: to.port, queue }),
            false => TransmitQueue { half: Half::HandedOver, counters: shared.queues[queue].clone() },
        };
        let queues = queues.into_iter().map(transmit).collect();
        self.add_output(to, queues)
    }

    /// Returns the index of a bridge's plan, which is created if it is missing.
    fn bridge(&mut self, bridge: &Arc<Bridge>, members: &[usize]) -> usize {
        if let Some(index) = self.pieces.bridges.iter().position(|plan| plan.is_of(bridge)) {
            return index;
        }
        let outputs = members.iter().map(|&port| self.output(Queues::all(port))).collect();
        self.pieces.bridges.push(BridgePlan::new(bridge.clone(), outputs, self.worker, true));
        self.pieces.bridges.len() - 1
    }

    /// Returns the index of the output to `to` that sends, which is created if it is missing.
    fn output(&mut self, to: Queues) -> usize {
        let shared = &self.layout.ports[to.port];
        let queues = to.only.map_or(0..shared.queues.len(), |queue| queue..queue + 1);
        let is_it = |output: &Output| {
            (output.port, output.first, output.queues.len()) == (shared.id, queues.start, queues.len())
                && !output.hands_over()
        };
        if let Some(index) = self.pieces.outputs.iter().position(is_it) {
            return index;
        }
        let queues = queues.map(|queue| self.transmit_queue(QueueIndex { port: to.port, queue })).collect();
        self.add_output(to, queues)
    }

    /// Adds an output with these queues. Returns its index.
    fn add_output(&mut self, to: Queues, queues: Vec<TransmitQueue>) -> usize {
        let shared = &self.layout.ports[to.port];
        let counters = self.state.workers[self.worker].1.pulse.counters.clone();
        let mut output = Output::new(shared.id, queues, counters);
        output.first = to.only.unwrap_or(0);
        (output.running, output.drops) = (self.state.running(shared.id), shared.drops.queue.clone());
        if let Some(Domain::Bridge { bridge, members }) = self.layout.domain_of(to.port)
            && let (Some(numbered), Some(place)) = (&bridge.flows, members.iter().position(|&member| member == to.port))
        {
            output.config = Some(numbered.configs[place].clone());
        }
        output.aggregates = shared.member().is_some();
        // A mapped port sends chains without a copy, and returns them by the queue that they came from.
        let joins_all = output.aggregates && !output.hands_over() && !self.layout.is_mapped(to.port);
        output.one = joins_all.then_some(self.worker);
        self.pieces.outputs.push(output);
        self.pieces.outputs.len() - 1
    }

    /// Returns a queue to send to.
    fn transmit_queue(&mut self, to: QueueIndex) -> TransmitQueue {
        let shared = &self.layout.ports[to.port];
        let key = shared.key(to.queue);
        let half = if self.layout.senders_to(to) > 1 {
            Half::Shared(self.state.share(key, self.halves))
        } else {
            self.state.senders.insert(key, self.worker);
            Half::Own(self.halves.transmit.remove(&key))
        };
        TransmitQueue { half, counters: shared.queues[to.queue].clone() }
    }
}

/// Returns the place of a queue's port among the ports of its bridge.
fn place(members: &[usize], queue: QueueIndex) -> usize {
    members.iter().position(|&member| member == queue.port).unwrap_or_default()
}
