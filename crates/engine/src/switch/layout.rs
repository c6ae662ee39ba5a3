//! The layout of a switch: ports, what connects them, and which worker polls which queue. Built from a specification,
//! without side effects.

use super::shared::PortShared;
use crate::forward::bridge::Bridge;
use crate::spec::{MirrorSpec, PortSpec, Spec, WorkerSpec};
use std::sync::Arc;

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

/// The planned arrangement of a switch.
pub(super) struct Layout {
    pub(super) ports: Vec<Arc<PortShared>>,
    pub(super) domains: Vec<Domain>,
    /// Mirrors, each with the port that gets the copies.
    pub(super) mirrors: Vec<(MirrorSpec, usize)>,
    pub(super) workers: Vec<WorkerSpec>,
    /// Worker that polls each queue of each port.
    assignment: Vec<Vec<usize>>,
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
        let domains = patches.chain(bridges).collect();
        let mirrors = spec.mirrors.iter().map(|mirror| (mirror.clone(), index(&mirror.to))).collect();
        let workers = spec.staff();
        Layout { assignment: assignment(spec), ports, domains, mirrors, workers }
    }

    /// Returns the queues that `worker` polls, as (port, queue).
    pub(super) fn polled_by(&self, worker: usize) -> impl Iterator<Item = (usize, usize)> {
        let queues = |(port, workers): (usize, &Vec<usize>)| {
            let mine = workers.iter().enumerate().filter(|(_, w)| **w == worker);
            mine.map(|(queue, _)| (port, queue)).collect::<Vec<_>>()
        };
        self.assignment.iter().enumerate().flat_map(queues).collect::<Vec<_>>().into_iter()
    }

    /// Returns the worker that polls a queue.
    pub(super) fn poller(&self, port: usize, queue: usize) -> usize {
        self.assignment[port][queue]
    }

    /// Returns the connection of `port`.
    pub(super) fn domain_of(&self, port: usize) -> Option<&Domain> {
        self.domains.iter().find(|d| d.members().contains(&port))
    }

    /// Returns the port whose guest lends its buffers to `port`.
    pub(super) fn rx_buffers_from(&self, port: usize) -> Option<usize> {
        let mapping = self.ports[port].mapping()?.spec();
        let guest = self.ports.iter().position(|p| p.name == mapping.to)?;
        (mapping.from == self.ports[port].name).then_some(guest)
    }

    /// Returns the physical port that may send frames of the guest at `port` without a copy.
    pub(super) fn tx_in_place_via(&self, port: usize) -> Option<usize> {
        let mapping = self.ports[port].mapping()?.spec();
        let physical = self.ports.iter().position(|p| p.name == mapping.from)?;
        (mapping.to == self.ports[port].name).then_some(physical)
    }

    /// Returns how many workers may send to `port`.
    pub(super) fn senders_to(&self, port: usize) -> usize {
        let others = self.domain_of(port).map(Domain::members).unwrap_or_default().iter().filter(|&&p| p != port);
        // A bridge's worker has an output to every port of the bridge, its own included.
        let own = matches!(self.domain_of(port), Some(Domain::Bridge { .. })).then_some(&port);
        let mut senders: Vec<_> = others.chain(own).flat_map(|&p| &self.assignment[p]).collect();
        senders.sort();
        senders.dedup();
        senders.len()
    }
}

/// Assigns a worker to each queue of each port of `spec`: the worker that names it, or else the one with the fewest
/// queues. If the guest chooses the number of queues, all its unnamed ones count as one and stay together: otherwise
/// every worker would need an output to wherever the port's frames go.
pub(super) fn assignment(spec: &Spec) -> Vec<Vec<usize>> {
    let workers = spec.staff();
    let named = |port: &str, queue: usize| {
        workers.iter().position(|w| w.queues.iter().any(|(p, q)| p == port && q.is_none_or(|q| q == queue)))
    };
    let wanted: Vec<Vec<_>> =
        spec.ports.iter().map(|p| (0..p.driver.queues()).map(|q| named(&p.name, q)).collect()).collect();
    let mut load = vec![0; workers.len()];
    for (port, wanted) in spec.ports.iter().zip(&wanted) {
        let mut named: Vec<usize> = wanted.iter().flatten().copied().collect();
        if port.driver.is_asked() {
            named.sort_unstable();
            named.dedup();
        }
        named.iter().for_each(|&worker| load[worker] += 1);
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
    use crate::punt::EventNotifier;
    use crate::spec::{Driver, PortSpec};
    use paflow::Rules;

    #[test]
    fn queues_are_spread_evenly_around_those_that_are_named() {
        let port = |name| PortSpec::new(name, Driver::Tap(tap::Settings { interface: None, mtu: None, queues: 2 }));
        let pinned = WorkerSpec { queues: vec![("b".into(), Some(1))], ..WorkerSpec::default() };
        let spec = Spec {
            ports: vec![port("a"), port("b")],
            patches: vec![["a".into(), "b".into()]],
            workers: vec![pinned, WorkerSpec::default()],
            ..Spec::default()
        };
        let rules = Arc::new(Live::new(Rules::none()));
        let notifier = Arc::new(EventNotifier::new().unwrap());
        let shared = |(id, spec)| Arc::new(PortShared::new(id, spec, None, (&rules, [&notifier, &notifier])));
        let layout = Layout::new(&spec, (1..).zip(&spec.ports).map(shared).collect(), vec![]);
        assert_eq!(layout.poller(1, 1), 0);
        assert_eq!(layout.polled_by(0).count(), 2);
        assert_eq!(layout.polled_by(1).count(), 2);
        assert_eq!(layout.senders_to(0), 2);
    }

    #[test]
    fn queues_that_a_guest_decides_on_stay_together() {
        let driver = Driver::VhostUser(vhost_user::Settings {
            socket: "g.sock".into(),
            mode: crate::spec::Mode::Server,
            access: Default::default(),
            queues: None,
            any_memory: false,
        });
        let pinned = WorkerSpec { queues: vec![("a".into(), Some(1))], ..WorkerSpec::default() };
        let ports = ["a", "b"].map(|name| PortSpec::new(name, driver.clone()));
        let workers = vec![WorkerSpec::default(), pinned];
        let [a, b]: [Vec<usize>; 2] =
            assignment(&Spec { ports: ports.into(), workers, ..Spec::default() }).try_into().unwrap();
        assert_eq!((a[0], a[1], a[2], a[63], a.len()), (0, 1, 0, 0, 64));
        assert!(b.iter().all(|&worker| worker == b[0]));
    }
}
