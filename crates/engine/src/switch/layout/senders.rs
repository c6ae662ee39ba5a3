//! The senders of a queue: outputs of workers.

use super::key::{OutputKey, Queues};
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
        let from: Vec<_> =
            (0..self.ports.len()).map(|port| self.senders_of(port, self.assignment[port].workers())).collect();
        for domain in &self.domains {
            match domain {
                Domain::Patch([a, b]) => {
                    to[*a].extend(&from[*b]);
                    to[*b].extend(&from[*a]);
                }
                // A bridge's worker has an output to every port of the bridge, its own included.
                Domain::Bridge { places, .. } => {
                    let mut all = DomainSenders::default();
                    places.iter().flatten().for_each(|&port| all.extend(&from[port]));
                    places.iter().flatten().for_each(|&port| to[port].extend(&all));
                }
            }
        }
        to
    }

    /// Returns the senders of frames of queues of the port with this index that these `workers` poll.
    fn senders_of(&self, port: usize, workers: BTreeSet<usize>) -> DomainSenders {
        let mut senders = DomainSenders { workers, ..DomainSenders::default() };
        let Some(sharing) = self.sharing(port) else { return senders };
        if sharing.way == Sharing::Locked {
            // Behind a lock, all workers are equal. Otherwise one polls the queue, and lanes have queues of their own to send to.
            senders.workers.extend(&sharing.workers);
        }
        senders.lanes.extend((0..sharing.workers.len()).filter(|&lane| self.lane_sends(port, lane, lane)));
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
        let senders = match self.positions[port] {
            Some(_) => vec![(Queues::all(to.port), self.senders[port].clone())],
            None => self.queue_patches.iter().flat_map(|patch| self.senders_along(patch, to)).collect(),
        };
        let has_lanes = senders.iter().any(|(_, senders)| senders.lanes.contains(&to.queue));
        let outputs = senders.iter().flat_map(|(to, senders)| {
            senders.workers.iter().map(|&worker| Sender { worker, output: OutputKey { to: *to, lane: None } })
        });
        let mut outputs = outputs.collect::<BTreeSet<_>>().into_iter();
        match (outputs.next(), outputs.next()) {
            (None, _) => Senders::None,
            (Some(sender), None) if !has_lanes => Senders::One(sender),
            _ => Senders::Several,
        }
    }

    /// Returns the senders of a queue along `patch`, each with the output's queues.
    fn senders_along(&self, patch: &QueuePatch, to: QueueId) -> Vec<(Queues, DomainSenders)> {
        let guest = self.index(patch.guest.port).map(|port| &self.ports[port]);
        let of_guest = guest.into_iter().flat_map(|guest| (0..guest.queues.len()).map(|queue| guest.queue(queue)));
        let along = |from: QueueId| match self.destination(from) {
            Destination::Port(queues) if queues.covers(to) => {
                Some((queues, self.senders_of(self.index(from.port)?, [self.poller(from)?].into())))
            }
            _ => None,
        };
        std::iter::once(patch.physical).chain(of_guest).filter_map(along).collect()
    }
}
