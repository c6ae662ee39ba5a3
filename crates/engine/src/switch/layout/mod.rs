//! The layout of a switch: ports, what connects them, and which worker polls which queue. Built from a specification,
//! without side effects.
//!
//! A layout says for each queue which way its frames go ([`Wiring`]), for each worker what it needs for that
//! ([`worker::WorkerLayout`]), and for each transmit queue its [`Senders`].

mod assignment;
mod key;
mod sender;
mod senders;
#[cfg(test)]
mod tests;
mod wiring;
mod worker;

pub(super) use assignment::{Assignment, Pollers, assignment};
pub(super) use key::{BridgeKey, OutputKey, Queues};
pub(super) use sender::{Sender, Senders};
pub(super) use wiring::{CrewWiring, MappedQueue, To, Wiring};
pub(super) use worker::BridgeTerms;

use super::shared::PortShared;
use crate::forward::bridge::Bridge;
use crate::queue_id::QueueId;
use crate::spec::{MappedQueues, MappingSpec, MirrorSpec, Sharing, SharingSpec, Spec, WorkerSpec};
use foldhash::HashMap;
use sender::DomainSenders;
use std::sync::Arc;

/// Ports at the places of a bridge, by index; `None` where no port stands. A port keeps its place while others come and go.
pub(super) type Places = Vec<Option<usize>>;

/// Connection between ports.
pub(super) enum Domain {
    /// Two ports, by index.
    Patch([usize; 2]),
    /// A bridge, and the ports at its places, by index.
    Bridge { name: Arc<str>, bridge: Arc<Bridge>, places: Places },
}

impl Domain {
    /// Returns the ports at its places, by index.
    fn places(&self) -> impl Iterator<Item = Option<usize>> {
        let (pair, places) = match self {
            Domain::Patch(pair) => (Some(pair), None),
            Domain::Bridge { places, .. } => (None, Some(places)),
        };
        let pair = pair.into_iter().flatten().map(|&port| Some(port));
        pair.chain(places.into_iter().flatten().copied())
    }
}

/// A port's place in a domain.
#[derive(Clone, Copy)]
struct Position {
    /// Index of the domain.
    domain: usize,
    /// Place of the port in the domain.
    place: usize,
}

/// Patch of a physical port's queue with a guest: a mapping of one queue in pass-through mode.
struct QueuePatch {
    physical: QueueId,
    guest: Queues,
}

/// A physical queue and the guest's queue that it is mapped to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joined {
    pub(super) physical: QueueId,
    pub(super) guest: QueueId,
}

/// A mirror of the specification.
pub(super) struct Mirroring {
    pub(super) spec: MirrorSpec,
    /// Index of the port that gets the copies.
    pub(super) to: usize,
}

/// Destination of the frames that a queue receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Destination {
    /// To a port: if to all its queues, each input picks one.
    Port(Queues),
    /// Through the bridge of the domain with this index, from this one of its ports.
    Bridge(usize, usize),
    /// Nowhere.
    Nowhere,
}

/// The planned arrangement of a switch.
pub(super) struct Layout {
    pub(super) ports: Vec<Arc<PortShared>>,
    /// Indices of the ports, by id.
    indices: HashMap<u64, usize>,
    pub(super) domains: Vec<Domain>,
    /// Pairs of mapped queues, in the order of the specification.
    pub(super) joined: Vec<Joined>,
    queue_patches: Vec<QueuePatch>,
    pub(super) mirrors: Vec<Mirroring>,
    pub(super) workers: Vec<WorkerSpec>,
    /// Worker that polls each queue of each port.
    assignment: Assignment,
    /// By port: how several workers share each of its queues, if they do.
    sharing: Vec<Option<SharingSpec>>,
    /// By port: its place in its domain, and its senders there.
    positions: Vec<Option<Position>>,
    senders: Vec<DomainSenders>,
}

impl Layout {
    /// Arranges `ports` and `bridges`, which are those of `spec` in its order, as is the `assignment` of workers to ports.
    pub(super) fn new(
        spec: &Spec,
        ports: Vec<Arc<PortShared>>,
        bridges: Vec<(Arc<Bridge>, Places)>,
        assignment: Assignment,
    ) -> Layout {
        let names: HashMap<_, _> = (0..).zip(&ports).map(|(index, port)| (port.name.clone(), index)).collect();
        let index = |name: &String| -> usize { *names.get(name).expect("the specification was checked") };
        let queue = |name: &String, queue: Option<usize>| ports[index(name)].queue(queue.unwrap_or(0));
        let patches = spec.patches.iter().map(|pair| Domain::Patch([index(&pair[0]), index(&pair[1])]));
        let bridges = spec.bridges.iter().zip(bridges).map(|(spec, (bridge, places))| Domain::Bridge {
            name: spec.name.as_str().into(),
            bridge,
            places,
        });
        let domains: Vec<_> = patches.chain(bridges).collect();
        let joined = |mapping: &MappingSpec, pair: MappedQueues| Joined {
            physical: queue(&mapping.from.port, Some(pair.physical)),
            guest: queue(&mapping.to.port, Some(pair.guest)),
        };
        let pairs = |mapping| MappingSpec::pairs(mapping, spec).into_iter().map(move |pair| joined(mapping, pair));
        let joined = spec.mappings.iter().flat_map(pairs).collect();
        let of_one = spec.mappings.iter().filter(|mapping| mapping.pass_through && mapping.is_of_one());
        let queue_patches = of_one.map(|mapping| QueuePatch {
            physical: queue(&mapping.from.port, mapping.from.queue),
            guest: Queues { port: ports[index(&mapping.to.port)].id, only: mapping.to.queue },
        });
        let queue_patches = queue_patches.collect();
        let mirrors = spec.mirrors.iter().map(|spec| Mirroring { spec: spec.clone(), to: index(&spec.to) }).collect();
        let is_shared = |sharing: &SharingSpec| sharing.way != Sharing::Rss;
        let sharing = spec.ports.iter().map(|port| port.sharing.clone().filter(is_shared)).collect();
        let mut positions = vec![None; ports.len()];
        for (domain, connected) in domains.iter().enumerate() {
            for (place, port) in connected.places().enumerate().filter_map(|(place, port)| Some((place, port?))) {
                // The first one counts, as for a specification that was not checked.
                positions[port].get_or_insert(Position { domain, place });
            }
        }
        let mut layout = Layout {
            indices: (0..).zip(&ports).map(|(index, port)| (port.id, index)).collect(),
            assignment,
            workers: spec.workers_or_default(),
            senders: Vec::new(),
            sharing,
            ports,
            domains,
            joined,
            queue_patches,
            mirrors,
            positions,
        };
        layout.senders = layout.find_senders();
        layout
    }

    /// Returns the index of a port by its id, if it is there.
    pub(super) fn index(&self, port: u64) -> Option<usize> {
        self.indices.get(&port).copied()
    }

    /// Returns a port by its id, if it is there.
    pub(super) fn port(&self, id: u64) -> Option<&Arc<PortShared>> {
        self.index(id).map(|index| &self.ports[index])
    }

    /// Returns how several workers share each queue of the port with this index, if they do.
    pub(super) fn sharing(&self, port: usize) -> Option<&SharingSpec> {
        self.sharing[port].as_ref()
    }

    /// Returns how several workers share this queue, if they do.
    pub(super) fn sharing_of(&self, id: QueueId) -> Option<&SharingSpec> {
        self.sharing(self.index(id.port)?)
    }

    /// Returns the queues that `worker` polls: alone, or as their parent.
    pub(super) fn polled_by(&self, worker: usize) -> impl Iterator<Item = QueueId> {
        let ports = self.ports.iter().zip(&self.assignment);
        ports.flat_map(move |(port, workers)| workers.polled_by(worker).map(|queue| port.queue(queue)))
    }

    /// Returns the lanes of shared queues that `worker` has.
    pub(super) fn lanes_of(&self, worker: usize) -> impl Iterator<Item = QueueId> {
        let ports = self.ports.iter().zip(&self.sharing);
        let lanes = ports.filter_map(move |(port, sharing)| {
            let lane = sharing.as_ref()?.workers.iter().position(|&other| other == worker)?;
            Some((port, lane))
        });
        lanes.flat_map(|(port, lane)| (0..port.queues.len()).map(move |queue| port.queue(queue).lane(lane)))
    }

    /// Returns the worker that polls a queue: alone, as its parent, or in turns with others.
    pub(super) fn poller(&self, id: QueueId) -> Option<usize> {
        self.index(id.port).map(|port| self.assignment[port].of_queue(id.queue))
    }

    /// Returns all workers that poll a queue.
    pub(super) fn receivers(&self, id: QueueId) -> impl Iterator<Item = usize> {
        let shared = self.sharing_of(id).into_iter().flat_map(|sharing| &sharing.workers);
        self.poller(id).into_iter().chain(shared.copied())
    }

    /// Returns the connection of the port with this index.
    pub(super) fn domain_of(&self, port: usize) -> Option<&Domain> {
        self.positions[port].map(|position| &self.domains[position.domain])
    }

    /// Returns the workers that poll the queues of each port.
    pub(super) fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    /// Returns the place of the port with this index in its domain.
    pub(super) fn place_of(&self, port: usize) -> Option<usize> {
        self.positions[port].map(|position| position.place)
    }

    /// Returns where the frames of a queue go.
    fn destination(&self, from: QueueId) -> Destination {
        let Some(port) = self.index(from.port) else { return Destination::Nowhere };
        if let Some(Position { domain, place }) = self.positions[port] {
            return match &self.domains[domain] {
                Domain::Patch(pair) => Destination::Port(Queues::all(self.ports[pair[1 - place]].id)),
                Domain::Bridge { .. } => Destination::Bridge(domain, place),
            };
        }
        if let Some(patch) = self.queue_patches.iter().find(|patch| patch.physical == from) {
            return Destination::Port(patch.guest);
        }
        // A guest's queue that is not mapped itself goes where the first of its queues does.
        let of_guest = || self.queue_patches.iter().filter(|patch| patch.guest.port == from.port);
        let own = of_guest().find(|patch| patch.guest.covers(from)).or_else(|| of_guest().next());
        own.map_or(Destination::Nowhere, |patch| Destination::Port(Queues::one(patch.physical)))
    }

    /// Returns the guest's queue that lends its buffers to a physical queue.
    fn rx_buffers_from(&self, physical: QueueId) -> Option<QueueId> {
        self.joined.iter().find(|joined| joined.physical == physical).map(|joined| joined.guest)
    }

    /// Returns the physical queue that may send frames of a guest's queue without a copy.
    fn tx_in_place_via(&self, guest: QueueId) -> Option<QueueId> {
        self.joined.iter().find(|joined| joined.guest == guest).map(|joined| joined.physical)
    }

    /// Reports whether a queue of the port is mapped.
    fn is_mapped(&self, port: u64) -> bool {
        self.joined.iter().any(|joined| joined.physical.port == port || joined.guest.port == port)
    }

    /// Reports whether mirrors copy to the port.
    pub(super) fn is_mirrored_to(&self, port: u64) -> bool {
        self.mirrors.iter().any(|mirror| self.ports[mirror.to].id == port)
    }
}
