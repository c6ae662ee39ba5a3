//! Frames of the control side: those that it sends by a queue, those that are forwarded as if a queue had received them, and packets
//! of controllers.

use super::queue::{Receive, Transmit};
use super::{Fabric, FabricState};
use crate::answers::Delivery;
use crate::drops::Reason;
use crate::forward::flows::Emission;
use crate::queue_id::QueueId;
use crate::stage::egress::Egress;
use crate::stage::stopwatch::Stopwatch;
use crate::switch::shared::PortShared;
use crate::worker::Worker;
use packet::{BurstStorage, MAX_BURST, Segment};
use std::sync::Arc;
use virtqueue::ordering;

impl Fabric {
    /// Has a worker of the bridge that forwards by flows send a controller's packet, or counts it as dropped.
    pub(in crate::switch) fn emit(&self, emission: Emission) {
        let state = self.state();
        match state.posts.iter().find(|post| post.emits()) {
            Some(post) if !post.worker.emit(emission) => self.unsent.add(Reason::ControllerFlood, 1),
            Some(_) => {}
            None => self.unsent.add(Reason::Unconnected, 1),
        }
    }

    /// Sends frames by a queue of `port`, neither joined nor encapsulated.
    pub(in crate::switch) fn send(&self, port: &PortShared, queue: usize, frames: Vec<Vec<u8>>) {
        let id = port.queue(queue);
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
        match state.queues.get(&id).map(|queue| &queue.transmit) {
            None | Some(Transmit::Down) => send(None),
            Some(Transmit::Parked(egress)) => send(Some(egress)),
            Some(Transmit::Shared(shared)) => match shared.lock() {
                Ok(egress) => send(egress.as_ref()),
                Err(_) => send(None),
            },
            Some(Transmit::Own(sender)) => {
                let post = &state.posts[sender.worker];
                match post.outputs.of(&sender.output).filter(|_| !post.worker.pulse.is_given_up()) {
                    Some(slot) => drop(post.worker.ask(move |plan| send(plan.own_transmit(slot, id)))),
                    None => send(None),
                }
            }
        }
    }

    /// Forwards frames as if this queue of `port` had received them, behind all stages.
    pub(in crate::switch) fn receive(&self, port: &PortShared, queue: usize, frames: Vec<Vec<u8>>) {
        let delivery = Arc::new(Delivery::new(frames, port.drops.queue.clone()));
        let (state, id) = (self.state(), port.queue(queue));
        for worker in state.pollers(id).filter(|worker| !worker.pulse.is_given_up()) {
            let delivery = delivery.clone();
            drop(worker.ask(move |plan| plan.receive_as(id.port, &delivery)));
        }
    }
}

impl FabricState {
    /// Returns the workers that poll a queue.
    fn pollers(&self, id: QueueId) -> impl Iterator<Item = &Worker> {
        let workers = match self.queues.get(&id).map(|queue| &queue.receive) {
            Some(Receive::Polled(wiring)) => vec![wiring.worker],
            Some(Receive::Crew(crew)) => crew.wiring.lanes.iter().map(|lane| lane.worker).collect(),
            _ => Vec::new(),
        };
        workers.into_iter().map(|worker| &self.posts[worker].worker)
    }
}
