//! The way of a queue's frames.

use super::key::{BridgeKey, OutputKey, Queues};
use super::{Destination, Domain, Layout};
use crate::queue_id::QueueId;
use crate::spec::SharingSpec;

/// Where frames go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::switch) enum To {
    /// To a port.
    Output(OutputKey),
    /// Through a bridge, from this one of its ports.
    Bridge(BridgeKey, usize),
    Nowhere,
}

impl To {
    /// Reports whether frames go by the same output or bridge, perhaps from another place in the bridge.
    fn is_by_the_same(&self, other: &To) -> bool {
        match (self, other) {
            (To::Bridge(bridge, _), To::Bridge(other, _)) => bridge == other,
            (to, other) => to == other,
        }
    }
}

/// A queue of an output that a mapping joins with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::switch) struct MappedQueue {
    pub(in crate::switch) output: OutputKey,
    pub(in crate::switch) queue: usize,
}

/// The way of a queue's frames, or of a lane's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::switch) struct Wiring {
    pub(in crate::switch) worker: usize,
    pub(in crate::switch) to: To,
    /// Number by which frames pick a queue.
    pub(in crate::switch) number: usize,
    /// The queue whose guest lends its buffers.
    pub(in crate::switch) rx_buffers_from: Option<MappedQueue>,
    /// The queue that may keep chains while it sends them.
    pub(in crate::switch) tx_in_place_via: Option<MappedQueue>,
}

impl Wiring {
    /// Reports whether frames need not wait while their way changes to `next`.
    pub(in crate::switch) fn leads_on(&self, next: &Wiring) -> bool {
        let Wiring { worker, to, number: _, rx_buffers_from, tx_in_place_via } = next;
        (self.worker, self.rx_buffers_from, self.tx_in_place_via) == (*worker, *rx_buffers_from, *tx_in_place_via)
            && self.to.is_by_the_same(to)
    }
}

/// The workers of a shared queue, and the way of its frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::switch) struct CrewWiring {
    pub(in crate::switch) sharing: SharingSpec,
    /// The worker that receives, if only one does.
    pub(in crate::switch) parent: Option<ParentWiring>,
    pub(in crate::switch) lanes: Vec<LaneWiring>,
}

/// The way of frames that lanes hand over to their parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::switch) struct ParentWiring {
    pub(in crate::switch) worker: usize,
    /// Outputs that send, in the order of the lanes' outputs.
    pub(in crate::switch) outputs: Vec<OutputKey>,
    /// Number by which frames pick a queue.
    pub(in crate::switch) number: usize,
    /// The queue whose guest lends its buffers.
    pub(in crate::switch) rx_buffers_from: Option<MappedQueue>,
    /// The queue that may have kept chains when one worker polled this queue.
    pub(in crate::switch) tx_in_place_via: Option<MappedQueue>,
}

/// The way of a lane's frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::switch) struct LaneWiring {
    pub(in crate::switch) id: QueueId,
    pub(in crate::switch) worker: usize,
    pub(in crate::switch) to: To,
    /// Outputs of its own, which hand frames over. There are none if the worker sends by itself.
    pub(in crate::switch) outputs: Vec<OutputKey>,
}

impl Layout {
    /// Returns the way of a queue that one worker polls, if its port is there.
    pub(in crate::switch) fn wiring(&self, id: QueueId) -> Option<Wiring> {
        let (rx_buffers_from, tx_in_place_via) = (self.rx_buffers_from(id), self.tx_in_place_via(id));
        let mapped = |to: QueueId| MappedQueue { output: self.output_to(id, to.port), queue: to.queue };
        Some(Wiring {
            worker: self.poller(id)?,
            to: self.to(id, None),
            number: rx_buffers_from.or(tx_in_place_via).map_or(id.queue, |mapped| mapped.queue),
            rx_buffers_from: rx_buffers_from.map(mapped),
            tx_in_place_via: tx_in_place_via.map(mapped),
        })
    }

    /// Returns the ways of a queue that several workers share, if they do.
    pub(in crate::switch) fn crew_wiring(&self, id: QueueId) -> Option<CrewWiring> {
        let sharing = self.sharing_of(id)?.clone();
        let wiring = self.wiring(id)?;
        let parent = sharing.has_parent().then(|| ParentWiring {
            worker: wiring.worker,
            outputs: self.outputs(id, None),
            number: wiring.number,
            rx_buffers_from: wiring.rx_buffers_from,
            tx_in_place_via: wiring.tx_in_place_via,
        });
        let lane = |(lane, &worker): (usize, &usize)| {
            let own = parent.as_ref().map(|_| id.lane(lane));
            let outputs = if own.is_some() { self.outputs(id, own) } else { Vec::new() };
            LaneWiring { id: id.lane(lane), worker, to: self.to(id, own), outputs }
        };
        let lanes = sharing.workers.iter().enumerate().map(lane).collect();
        Some(CrewWiring { lanes, parent, sharing })
    }

    /// Returns where the frames of a queue go, by outputs for `lane`, or by those for all.
    pub(super) fn to(&self, id: QueueId, lane: Option<QueueId>) -> To {
        match self.destination(id) {
            Destination::Port(to) => To::Output(OutputKey { to, lane }),
            Destination::Bridge(domain, place) => match &self.domains[domain] {
                Domain::Bridge { name, .. } => To::Bridge(BridgeKey { name: name.clone(), lane }, place),
                Domain::Patch(_) => To::Nowhere,
            },
            Destination::Nowhere => To::Nowhere,
        }
    }

    /// Returns all outputs by which frames of a queue may leave.
    pub(super) fn outputs(&self, id: QueueId, lane: Option<QueueId>) -> Vec<OutputKey> {
        self.outputs_by_place(id, lane).into_iter().flatten().collect()
    }

    /// Does the same by place, if frames of the queue go through a bridge.
    pub(super) fn outputs_by_place(&self, id: QueueId, lane: Option<QueueId>) -> Vec<Option<OutputKey>> {
        match self.destination(id) {
            Destination::Port(to) => vec![Some(OutputKey { to, lane })],
            Destination::Bridge(domain, _) => {
                let output = |port: usize| OutputKey { to: Queues::all(self.ports[port].id), lane };
                self.domains[domain].places().map(|place| place.map(output)).collect()
            }
            Destination::Nowhere => Vec::new(),
        }
    }

    /// Returns the output by which a queue's frames go to `port`, which is the one of its mapping, too.
    pub(super) fn output_to(&self, id: QueueId, port: u64) -> OutputKey {
        let only = if let Destination::Port(to) = self.destination(id) { to.only } else { None };
        OutputKey { to: Queues { port, only }, lane: None }
    }
}
