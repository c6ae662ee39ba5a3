//! A worker's plan by the layout, from the halves that exist.

use super::{FabricState, Halves};
use crate::forward::bridge::Bridge;
use crate::forward::{BridgePlan, Half, Output, Target, TransmitQueue};
use crate::switch::layout::{Destination, Layout, QueueIndex, Queues};
use crate::worker::{Input, OutputQueue, Pieces};
use std::sync::Arc;

impl FabricState {
    /// Assembles the plan of `worker`.
    pub(super) fn assemble(&mut self, layout: &Layout, worker: usize, halves: &mut Halves) -> Pieces {
        let mut assembly = Assembly { state: self, layout, worker, halves, pieces: Pieces::default() };
        layout.polled_by(worker).for_each(|from| assembly.add_input(from));
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
    pieces: Pieces,
}

impl Assembly<'_> {
    /// Adds a queue that the worker polls.
    fn add_input(&mut self, from: QueueIndex) {
        let layout = self.layout;
        let shared = &layout.ports[from.port];
        let key = shared.key(from.queue);
        self.state.pollers.insert(key, self.worker);
        let destination = layout.destination(from);
        let target = match destination {
            Destination::Port(to) => Target::Patch(self.output(to)),
            Destination::Bridge(bridge, members) => {
                let from = members.iter().position(|&member| member == from.port).unwrap_or_default();
                Target::Bridge { bridge: self.bridge(bridge, members), from }
            }
            Destination::Nowhere => Target::Nowhere,
        };
        let ingress = self.halves.receive.remove(&key);
        let (rx_buffers_from, tx_in_place_via) = (layout.rx_buffers_from(from), layout.tx_in_place_via(from));
        // Its frames go there by the same output.
        let only = if let Destination::Port(to) = destination { to.only } else { None };
        let mut mapped =
            |to: QueueIndex| OutputQueue { output: self.output(Queues { port: to.port, only }), queue: to.queue };
        let input = Input {
            port: key.port,
            queue: key.queue,
            ingress,
            target,
            number: rx_buffers_from.or(tx_in_place_via).map_or(key.queue, |mapped| mapped.queue),
            rx_buffers_from: rx_buffers_from.map(&mut mapped),
            tx_in_place_via: tx_in_place_via.map(&mut mapped),
            counters: shared.queues[from.queue].clone(),
            drops: shared.drops.forward.clone(),
        };
        self.pieces.inputs.push(input);
    }

    /// Returns the index of a bridge's plan, which is created if it is missing.
    fn bridge(&mut self, bridge: &Arc<Bridge>, members: &[usize]) -> usize {
        if let Some(index) = self.pieces.bridges.iter().position(|plan| plan.is_of(bridge)) {
            return index;
        }
        let outputs = members.iter().map(|&port| self.output(Queues::all(port))).collect();
        self.pieces.bridges.push(BridgePlan::new(bridge.clone(), outputs, self.worker));
        self.pieces.bridges.len() - 1
    }

    /// Returns the index of the output to `to`, which is created if it is missing.
    fn output(&mut self, to: Queues) -> usize {
        let shared = &self.layout.ports[to.port];
        let queues = to.only.map_or(0..shared.queues.len(), |queue| queue..queue + 1);
        let first = queues.start;
        let is_it =
            |output: &Output| output.port == shared.id && (output.first, output.queues.len()) == (first, queues.len());
        if let Some(index) = self.pieces.outputs.iter().position(is_it) {
            return index;
        }
        let queues = queues.map(|queue| self.transmit_queue(QueueIndex { port: to.port, queue })).collect();
        let counters = self.state.workers[self.worker].1.pulse.counters.clone();
        let mut output = Output::new(shared.id, queues, counters);
        output.first = first;
        (output.running, output.drops) = (self.state.running(shared.id), shared.drops.queue.clone());
        output.aggregates = shared.member().is_some();
        // A mapped port sends chains without a copy, and returns them by the queue that they came from.
        output.one = (output.aggregates && !self.layout.is_mapped(to.port)).then_some(self.worker);
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
