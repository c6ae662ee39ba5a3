//! The layout of a switch: ports, what connects them, and which worker polls which queue. Built from a specification,
//! without side effects.

use super::shared::PortShared;
use crate::forward::bridge::Bridge;
use crate::spec::{
    MappedQueues, MappingSpec, MirrorSpec, Order, PortSpec, Sharing, SharingSpec, Spec, StaticRoles, WorkerSpec,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A queue of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueIndex {
    /// Index of the port in the layout.
    pub(super) port: usize,
    /// Index of the queue in its port.
    pub(super) queue: usize,
}

/// One queue of a port, or all its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queues {
    /// Index of the port in the layout.
    pub(super) port: usize,
    /// Index of the only queue in its port; all queues if `None`.
    pub(super) only: Option<usize>,
}

impl Queues {
    /// Returns all queues of a port.
    pub(super) fn all(port: usize) -> Queues {
        Queues { port, only: None }
    }

    /// Returns one queue.
    fn one(queue: QueueIndex) -> Queues {
        Queues { port: queue.port, only: Some(queue.queue) }
    }

    /// Reports whether `queue` is one of these.
    fn covers(self, queue: QueueIndex) -> bool {
        self.port == queue.port && self.only.is_none_or(|only| only == queue.queue)
    }
}

/// Connection between ports.
pub(super) enum Domain {
    /// Two ports, by index.
    Patch([usize; 2]),
    /// A bridge and its ports, by index.
    Bridge { bridge: Arc<Bridge>, members: Vec<usize> },
}

impl Domain {
    fn members(&self) -> &[usize] {
        match self {
            Domain::Patch(pair) => pair,
            Domain::Bridge { members, .. } => members,
        }
    }
}

/// Patch of a physical port's queue with a guest: a mapping of one queue in pass-through mode.
struct QueuePatch {
    physical: QueueIndex,
    guest: Queues,
}

/// A physical queue and the guest's queue that it is mapped to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joined {
    pub(super) physical: QueueIndex,
    pub(super) guest: QueueIndex,
}

/// A worker that sends to a queue. Its lanes have outputs of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sender {
    worker: usize,
    is_lane: bool,
}

/// Workers that send to the queues of a port, or may send to those of the other ports of its domain.
#[derive(Clone, Default)]
struct Senders {
    /// To every queue.
    everywhere: BTreeSet<Sender>,
    /// By lane of a port's queues that sends to the queue of its index by itself.
    lanes: BTreeMap<usize, BTreeSet<Sender>>,
}

impl Senders {
    fn extend(&mut self, other: &Senders) {
        self.everywhere.extend(&other.everywhere);
        for (&lane, senders) in &other.lanes {
            self.lanes.entry(lane).or_default().extend(senders);
        }
    }

    /// Returns how many send to the queue of this index.
    fn to(&self, queue: usize) -> usize {
        let own = self.lanes.get(&queue).into_iter().flatten();
        self.everywhere.len() + own.filter(|sender| !self.everywhere.contains(sender)).count()
    }
}

/// A mirror of the specification.
pub(super) struct Mirroring {
    pub(super) spec: MirrorSpec,
    /// Index of the port that gets the copies.
    pub(super) to: usize,
}

/// Destination of the frames that a queue receives.
#[derive(Clone, Copy)]
pub(super) enum Destination<'l> {
    /// To a port: if to all its queues, each input picks one.
    Port(Queues),
    /// Through a bridge, which has these ports.
    Bridge(&'l Arc<Bridge>, &'l [usize]),
    /// Nowhere.
    Nowhere,
}

/// The planned arrangement of a switch.
pub(super) struct Layout {
    pub(super) ports: Vec<Arc<PortShared>>,
    pub(super) domains: Vec<Domain>,
    /// Pairs of mapped queues, in the order of the specification.
    pub(super) joined: Vec<Joined>,
    queue_patches: Vec<QueuePatch>,
    pub(super) mirrors: Vec<Mirroring>,
    pub(super) workers: Vec<WorkerSpec>,
    /// Worker that polls each queue of each port.
    assignment: Vec<Vec<usize>>,
    /// By port: how several workers share each of its queues, if they do.
    sharing: Vec<Option<SharingSpec>>,
    /// By port: its domain, and the workers that send to it if it has one.
    domain_of: Vec<Option<usize>>,
    senders_to: Vec<Senders>,
}

impl Layout {
    /// Arranges `ports` and `bridges`, which are those of `spec` in its order.
    pub(super) fn new(spec: &Spec, ports: Vec<Arc<PortShared>>, bridges: Vec<Arc<Bridge>>) -> Layout {
        let index = |name: &String| ports.iter().position(|p| p.name == *name).expect("the specification was checked");
        let patches = spec.patches.iter().map(|pair| Domain::Patch([index(&pair[0]), index(&pair[1])]));
        let bridges = spec.bridges.iter().zip(bridges).map(|(spec, bridge)| {
            let members = spec.ports.iter().map(index).collect();
            Domain::Bridge { bridge, members }
        });
        let domains: Vec<_> = patches.chain(bridges).collect();
        let joined = |mapping: &MappingSpec, pair: MappedQueues| Joined {
            physical: QueueIndex { port: index(&mapping.from.port), queue: pair.physical },
            guest: QueueIndex { port: index(&mapping.to.port), queue: pair.guest },
        };
        let pairs = |mapping| MappingSpec::pairs(mapping, spec).into_iter().map(move |pair| joined(mapping, pair));
        let joined = spec.mappings.iter().flat_map(pairs).collect();
        let of_one = spec.mappings.iter().filter(|mapping| mapping.pass_through && mapping.is_of_one());
        let queue_patches = of_one.map(|mapping| QueuePatch {
            physical: QueueIndex { port: index(&mapping.from.port), queue: mapping.from.queue.unwrap_or(0) },
            guest: Queues { port: index(&mapping.to.port), only: mapping.to.queue },
        });
        let queue_patches = queue_patches.collect();
        let mirrors = spec.mirrors.iter().map(|spec| Mirroring { spec: spec.clone(), to: index(&spec.to) }).collect();
        let workers = spec.workers_or_default();
        let assignment = assignment(spec);
        let is_shared = |sharing: &SharingSpec| sharing.way != Sharing::Rss;
        let sharing = spec.ports.iter().map(|port| port.sharing.clone().filter(is_shared)).collect();
        let mut domain_of = vec![None; ports.len()];
        for (number, domain) in domains.iter().enumerate() {
            // The first one counts, as for a specification that was not checked.
            domain.members().iter().for_each(|&port| _ = domain_of[port].get_or_insert(number));
        }
        let senders_to = vec![Senders::default(); ports.len()];
        let mut layout = Layout {
            assignment,
            sharing,
            ports,
            domains,
            joined,
            queue_patches,
            mirrors,
            workers,
            domain_of,
            senders_to,
        };
        layout.find_senders();
        layout
    }

    /// Finds the workers that send to each port of a domain. There may be a thousand ports with 64 queue pairs, so nothing here
    /// goes through pairs of queues.
    fn find_senders(&mut self) {
        let from: Vec<_> = (0..self.ports.len()).map(|port| self.senders_of(port, &self.assignment[port])).collect();
        for domain in &self.domains {
            match domain {
                Domain::Patch([a, b]) => {
                    self.senders_to[*a].extend(&from[*b]);
                    self.senders_to[*b].extend(&from[*a]);
                }
                // A bridge's worker has an output to every port of the bridge, its own included.
                Domain::Bridge { members, .. } => {
                    let mut all = Senders::default();
                    members.iter().for_each(|&port| all.extend(&from[port]));
                    members.iter().for_each(|&port| self.senders_to[port].extend(&all));
                }
            }
        }
    }

    /// Returns the workers that send the frames of queues of a port that these poll.
    fn senders_of(&self, port: usize, pollers: &[usize]) -> Senders {
        let poller = |&worker: &usize| Sender { worker, is_lane: false };
        let everywhere = pollers.iter().map(poller).collect();
        let mut senders = Senders { everywhere, ..Senders::default() };
        let Some(sharing) = self.sharing(port) else { return senders };
        for (lane, &worker) in sharing.workers.iter().enumerate() {
            if sharing.way == Sharing::Locked {
                // Behind a lock, all workers are equal. Otherwise one polls the queue, and lanes have queues of their own to send to.
                senders.everywhere.insert(poller(&worker));
            } else if self.lane_sends(port, lane, lane) {
                senders.lanes.entry(lane).or_default().insert(Sender { worker, is_lane: true });
            }
        }
        senders
    }

    /// Returns how several workers share each queue of a port, if they do.
    pub(super) fn sharing(&self, port: usize) -> Option<&SharingSpec> {
        self.sharing[port].as_ref()
    }

    /// Returns the queues that `worker` polls: alone, or as their parent.
    pub(super) fn polled_by(&self, worker: usize) -> impl Iterator<Item = QueueIndex> {
        let queues = |(port, workers): (usize, &Vec<usize>)| {
            let mine = workers.iter().enumerate().filter(|(_, w)| **w == worker);
            mine.map(|(queue, _)| QueueIndex { port, queue }).collect::<Vec<_>>()
        };
        self.assignment.iter().enumerate().flat_map(queues).collect::<Vec<_>>().into_iter()
    }

    /// Returns the shared queues of which `worker` processes frames, each with the lane.
    pub(super) fn lanes_of(&self, worker: usize) -> impl Iterator<Item = (QueueIndex, usize)> {
        let of_port = move |(port, sharing): (usize, &Option<SharingSpec>)| {
            let lane = sharing.as_ref()?.workers.iter().position(|&other| other == worker)?;
            Some((port, lane))
        };
        let ports = self.sharing.iter().enumerate().filter_map(of_port);
        ports.flat_map(|(port, lane)| {
            (0..self.assignment[port].len()).map(move |queue| (QueueIndex { port, queue }, lane))
        })
    }

    /// Returns the worker that polls a queue: alone, as its parent, or in turns with others.
    pub(super) fn poller(&self, queue: QueueIndex) -> usize {
        self.assignment[queue.port][queue.queue]
    }

    /// Returns the connection of `port`.
    pub(super) fn domain_of(&self, port: usize) -> Option<&Domain> {
        self.domain_of[port].map(|domain| &self.domains[domain])
    }

    /// Returns where the frames of a queue go.
    pub(super) fn destination(&self, from: QueueIndex) -> Destination<'_> {
        match self.domain_of(from.port) {
            Some(Domain::Patch([a, b])) => {
                return Destination::Port(Queues::all(if *a == from.port { *b } else { *a }));
            }
            Some(Domain::Bridge { bridge, members }) => return Destination::Bridge(bridge, members),
            None => {}
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
    pub(super) fn rx_buffers_from(&self, physical: QueueIndex) -> Option<QueueIndex> {
        self.joined.iter().find(|joined| joined.physical == physical).map(|joined| joined.guest)
    }

    /// Returns the physical queue that may send frames of a guest's queue without a copy.
    pub(super) fn tx_in_place_via(&self, guest: QueueIndex) -> Option<QueueIndex> {
        self.joined.iter().find(|joined| joined.guest == guest).map(|joined| joined.physical)
    }

    /// Reports whether a queue of the port is mapped.
    pub(super) fn is_mapped(&self, port: usize) -> bool {
        self.joined.iter().any(|joined| joined.physical.port == port || joined.guest.port == port)
    }

    /// Returns how many workers may send to a queue.
    pub(super) fn senders_to(&self, to: QueueIndex) -> usize {
        if self.domain_of(to.port).is_some() {
            return self.senders_to[to.port].to(to.queue);
        }
        let mut senders = Senders::default();
        self.queue_patches.iter().for_each(|patch| self.add_senders_along(patch, to, &mut senders));
        senders.to(to.queue)
    }

    /// Reports whether a lane of a port's queues sends to the queues of this index by itself. Otherwise it hands over.
    pub(super) fn lane_sends(&self, port: usize, lane: usize, queue: usize) -> bool {
        match self.sharing(port).map(|sharing| &sharing.way) {
            // Each lane has a queue of its own to send to. So workers do not meet at one, and a mapped guest's queue 0 is the
            // parent's alone.
            Some(Sharing::StaticRole(StaticRoles { order: Order::None, .. })) => lane == queue && lane > 0,
            _ => false,
        }
    }

    /// Adds the workers that send to a queue along `patch`.
    fn add_senders_along(&self, patch: &QueuePatch, to: QueueIndex, senders: &mut Senders) {
        let sends =
            |from: &QueueIndex| matches!(self.destination(*from), Destination::Port(queues) if queues.covers(to));
        let port = patch.guest.port;
        let of_guest = (0..self.assignment[port].len()).map(|queue| QueueIndex { port, queue });
        let ends = std::iter::once(patch.physical).chain(of_guest);
        ends.filter(sends).for_each(|from| senders.extend(&self.senders_of(from.port, &[self.poller(from)])));
    }
}

/// Assigns a worker to each queue of each port of `spec`: the worker that the port or the worker names, or else the one with the
/// fewest queues. If the guest chooses the number of queues, all its unnamed ones count as one and stay together: otherwise
/// every worker would need an output to wherever the port's frames go.
pub(super) fn assignment(spec: &Spec) -> Vec<Vec<usize>> {
    let workers = spec.workers_or_default();
    let named = |port: &PortSpec, queue: usize| match &port.sharing {
        Some(sharing) => Some(sharing.poller(queue)),
        None => workers.iter().position(|w| w.queues.iter().any(|queues| queues.covers(&port.name, queue))),
    };
    let wanted: Vec<Vec<_>> =
        spec.ports.iter().map(|port| (0..port.driver.queues()).map(|queue| named(port, queue)).collect()).collect();
    let mut load = vec![0; workers.len()];
    for (port, wanted) in spec.ports.iter().zip(&wanted) {
        let mut named: Vec<usize> = wanted.iter().flatten().copied().collect();
        if port.driver.is_asked() {
            named.sort_unstable();
            named.dedup();
        }
        let others = port.sharing.iter().flat_map(|sharing| &sharing.workers);
        named.iter().chain(others).for_each(|&worker| load[worker] += 1);
    }
    let mut least = || {
        let least = (0..load.len()).min_by_key(|&worker| load[worker]).unwrap_or_default();
        load[least] += 1;
        least
    };
    let mut place = |(port, wanted): (&PortSpec, Vec<Option<usize>>)| {
        if port.driver.is_asked() {
            let rest = if wanted.contains(&None) { least() } else { 0 };
            return wanted.iter().map(|worker| worker.unwrap_or(rest)).collect();
        }
        wanted.iter().map(|worker| worker.unwrap_or_else(&mut least)).collect()
    };
    spec.ports.iter().zip(wanted).map(&mut place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Live;
    use crate::port::{tap, vhost_user};
    use crate::spec::{Driver, MappingSpec, PortQueues, PortSpec};
    use crate::switch::mapping::Ends;
    use crate::switch::shared::SwitchParts;
    use handover::EventNotifier;
    use paflow::Rules;

    /// Lays out `spec`, which has no bridges.
    fn layout(spec: &Spec) -> Layout {
        let rules = Arc::new(Live::new(Rules::none()));
        let notifier = Arc::new(EventNotifier::new().unwrap());
        let parts =
            SwitchParts { rules: &rules, relayed: &notifier, asked: &notifier, exchanges: &[], files: &Arc::default() };
        let shared = |(id, port)| Arc::new(PortShared::new(id, port, Ends::None, &parts, None));
        Layout::new(spec, (1..).zip(&spec.ports).map(shared).collect(), vec![])
    }

    fn at(port: usize, queue: usize) -> QueueIndex {
        QueueIndex { port, queue }
    }

    #[test]
    fn queues_are_spread_evenly_around_those_that_are_named() {
        let port = |name| PortSpec::new(name, Driver::Tap(tap::Settings { interface: None, mtu: None, queues: 2 }));
        let pinned = WorkerSpec { queues: vec![PortQueues::one("b", 1)], ..WorkerSpec::default() };
        let spec = Spec {
            ports: vec![port("a"), port("b")],
            patches: vec![["a".into(), "b".into()]],
            workers: vec![pinned, WorkerSpec::default()],
            ..Spec::default()
        };
        let layout = layout(&spec);
        assert_eq!(layout.poller(at(1, 1)), 0);
        assert_eq!(layout.polled_by(0).count(), 2);
        assert_eq!(layout.polled_by(1).count(), 2);
        assert_eq!(layout.senders_to(at(0, 1)), 2);
    }

    /// Two queues of a NIC are patched with two guests, the second with one queue of its guest.
    #[test]
    fn queues_of_a_port_are_patched_with_different_ports() {
        let tap =
            |name: &str| PortSpec::new(name, Driver::Tap(tap::Settings { interface: None, mtu: None, queues: 2 }));
        let mapping = |queue, to| MappingSpec {
            from: PortQueues::one("wan", queue),
            to,
            pass_through: true,
            copy_break: 0,
            tenancy: crate::spec::Tenancy::TrustAll,
        };
        let worker = |port, queue| WorkerSpec { queues: vec![PortQueues { port, queue }], ..WorkerSpec::default() };
        let spec = Spec {
            ports: vec![tap("wan"), tap("fw"), tap("dpi")],
            mappings: vec![mapping(1, PortQueues::all("fw")), mapping(0, PortQueues::one("dpi", 1))],
            workers: vec![
                worker("wan".into(), None),
                worker("fw".into(), None),
                worker("dpi".into(), Some(0)),
                worker("dpi".into(), Some(1)),
            ],
            ..Spec::default()
        };
        let layout = layout(&spec);
        let to = |queue| match layout.destination(queue) {
            Destination::Port(queues) => queues,
            _ => panic!("it is patched"),
        };
        let from = |port| [0, 1].map(|queue| to(at(port, queue)));
        assert_eq!(from(0), [Queues::one(at(2, 1)), Queues::all(1)]);
        assert_eq!(from(1), [Queues::one(at(0, 1)); 2]);
        // Its first queue is not mapped, and has nowhere else to go.
        assert_eq!(from(2), [Queues::one(at(0, 0)); 2]);
        let senders = |port| [0, 1].map(|queue| layout.senders_to(at(port, queue)));
        assert_eq!((senders(0), senders(1), senders(2)), ([2, 1], [1, 1], [0, 1]));
        let lenders = [at(0, 0), at(0, 1), at(1, 0), at(2, 1)].map(|queue| layout.rx_buffers_from(queue));
        assert_eq!(lenders, [Some(at(2, 1)), Some(at(1, 0)), None, None]);
        let senders = [at(0, 0), at(1, 0), at(1, 1), at(2, 1)].map(|queue| layout.tx_in_place_via(queue));
        assert_eq!(senders, [None, Some(at(0, 1)), None, Some(at(0, 0))]);
    }

    #[test]
    fn queues_that_a_guest_decides_on_stay_together() {
        let driver = Driver::VhostUser(vhost_user::Settings::at("g.sock"));
        let pinned = WorkerSpec { queues: vec![PortQueues::one("a", 1)], ..WorkerSpec::default() };
        let ports = ["a", "b"].map(|name| PortSpec::new(name, driver.clone()));
        let workers = vec![WorkerSpec::default(), pinned];
        let [a, b]: [Vec<usize>; 2] =
            assignment(&Spec { ports: ports.into(), workers, ..Spec::default() }).try_into().unwrap();
        assert_eq!((a[0], a[1], a[2], a[63], a.len()), (0, 1, 0, 0, 64));
        assert!(b.iter().all(|&worker| worker == b[0]));
    }
}
