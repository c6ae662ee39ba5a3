//! The senders of a queue: outputs of workers.

use super::key::Queues;
use super::sender::{DomainSenders, Sender, Senders};
use super::{Destination, Domain, Layout, QueuePatch};
use crate::queue_id::QueueId;
use crate::spec::{Order, Sharing, StaticRoles};
use std::collections::BTreeSet;

impl Layout {
    /// Finds the workers that send to each port from its domain. There may be a thousand ports with 64 queue pairs, so nothing
    /// here goes through pairs of queues.
    pub(super) fn find_senders(&self) -> Vec<DomainSenders> {
        let mut to = vec![DomainSenders::default(); self.ports.len()];
        let from: Vec<_> = (0..self.ports.len()).map(|port| self.senders_of(port, &self.assignment[port])).collect();
        for domain in &self.domains {
            match domain {
                Domain::Patch([a, b]) => {
                    to[*a].extend(&from[*b]);
                    to[*b].extend(&from[*a]);
                }
                // A bridge's worker has an output to every port of the bridge, its own included.
                Domain::Bridge { members, .. } => {
                    let mut all = DomainSenders::default();
                    members.iter().for_each(|&port| all.extend(&from[port]));
                    members.iter().for_each(|&port| to[port].extend(&all));
                }
            }
        }
        to
    }

    /// Returns the senders of frames of queues of the port with this index that these workers poll.
    fn senders_of(&self, port: usize, pollers: &[usize]) -> DomainSenders {
        let mut senders = DomainSenders { everywhere: pollers.iter().copied().collect(), ..DomainSenders::default() };
        let Some(sharing) = self.sharing(port) else { return senders };
        for (lane, &worker) in sharing.workers.iter().enumerate() {
            if sharing.way == Sharing::Locked {
                // Behind a lock, all workers are equal. Otherwise one polls the queue, and lanes have queues of their own to send to.
                senders.everywhere.insert(worker);
            } else if self.lane_sends(port, lane, lane) {
                let queues = (0..self.ports[port].queues.len()).map(|queue| self.ports[port].queue(queue));
                senders.lanes.entry(lane).or_default().extend(queues.map(|queue| (queue.lane(lane), worker)));
            }
        }
        senders
    }

    /// Reports whether a lane of the queues of the port with this index sends to the queues of this index by itself. Otherwise it
    /// hands over.
    pub(super) fn lane_sends(&self, port: usize, lane: usize, queue: usize) -> bool {
        match self.sharing(port).map(|sharing| &sharing.way) {
            // Each lane has a queue of its own to send to. So workers do not meet at one, and a mapped guest's queue 0 is the
            // parent's alone.
            Some(Sharing::StaticRole(StaticRoles { order: Order::None, .. })) => lane == queue && lane > 0,
            _ => false,
        }
    }

    /// Returns the senders of a queue.
    pub(in crate::switch) fn senders(&self, to: QueueId) -> Senders {
        let Some(port) = self.index(to.port) else { return Senders::None };
        if self.is_mirrored_to(to.port) {
            return Senders::Several;
        }
        let mut found = BTreeSet::new();
        if self.positions[port].is_some() {
            found.extend(self.senders[port].to(Queues::all(to.port), to.queue).take(2));
        } else {
            self.queue_patches.iter().for_each(|patch| self.add_senders_along(patch, to, &mut found));
        }
        match (found.first(), found.len()) {
            (None, _) => Senders::None,
            (Some(&sender), 1) => Senders::One(sender),
            _ => Senders::Several,
        }
    }

    /// Adds the senders of a queue along `patch`.
    fn add_senders_along(&self, patch: &QueuePatch, to: QueueId, found: &mut BTreeSet<Sender>) {
        let Some(guest) = self.index(patch.guest.port) else { return };
        let of_guest = (0..self.assignment[guest].len()).map(|queue| self.ports[guest].queue(queue));
        for from in std::iter::once(patch.physical).chain(of_guest) {
            if let Destination::Port(queues) = self.destination(from)
                && queues.covers(to)
                && let (Some(port), Some(poller)) = (self.index(from.port), self.poller(from))
            {
                found.extend(self.senders_of(port, &[poller]).to(queues, to.queue));
            }
        }
    }
}
