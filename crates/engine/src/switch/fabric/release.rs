//! Queues leave the workers that lose them by a new layout: each of them is parked then.

use super::FabricState;
use super::changes::Changes;
use super::crew::Crew;
use super::queue::{Receive, Transmit};
use crate::port::{Kept, ReceiveHalf};
use crate::queue_id::QueueId;
use crate::stage::shared::Shared;
use crate::switch::layout::{Layout, Sender, Senders};
use crate::worker::{Removed, Worker};
use std::collections::HashMap;
use std::sync::Arc;

/// Workers that end: by number, those that the layout lacks, and those that others replace.
#[derive(Clone, Copy)]
pub(super) struct Ending<'s> {
    spawned: &'s [Option<Worker>],
}

impl<'s> Ending<'s> {
    /// Returns the workers that end when these are added. There is an entry for each worker of the layout.
    pub(super) fn by(spawned: &'s [Option<Worker>]) -> Ending<'s> {
        Ending { spawned }
    }

    pub(super) fn has(self, worker: usize) -> bool {
        self.spawned.get(worker).is_none_or(Option::is_some)
    }

    /// Reports whether a crew cannot go on as it is: its wiring is another one, or one of its workers ends.
    pub(super) fn ends_crew(self, id: QueueId, crew: &Crew, layout: &Layout) -> bool {
        let lanes = crew.wiring.lanes.iter().map(|lane| lane.worker);
        let mut workers = lanes.chain(crew.wiring.parent.as_ref().map(|parent| parent.worker));
        workers.any(|worker| self.has(worker)) || layout.crew_wiring(id).as_ref() != Some(&crew.wiring)
    }
}

/// Reasons why ports have lost queues, by id.
type Lost = HashMap<u64, String>;

/// Queues that a worker was asked for.
#[derive(Default)]
struct Asked {
    receive: Vec<QueueId>,
    transmit: Vec<QueueId>,
}

impl FabricState {
    /// Takes the queues from workers that `layout` gives to others or to nobody, or whose frames it sends another way, and those of
    /// workers that end when those in `spawned` are added. Crews that do not go on rest. Queues to which several workers send by
    /// `layout` are shared from now on. Returns the ports of queues that do not come back, with reasons.
    pub(super) fn release(&mut self, layout: &Layout, spawned: &[Option<Worker>]) -> Lost {
        self.stranded.retain_mut(|parent| !parent.give_up());
        let ending = Ending::by(spawned);
        let mut changes = Changes::default();
        let mut asked: HashMap<usize, Asked> = HashMap::new();
        let crews = self.release_receive(layout, ending, &mut changes, &mut asked);
        self.release_transmit(layout, (ending, &crews), &mut changes, &mut asked);
        let answers: Vec<_> =
            changes.into_some().map(|(worker, change)| (worker, self.ask_one(worker, change))).collect();
        let (mut lost, mut removed) = (Lost::new(), Removed::default());
        for (worker, answer) in answers {
            match answer.wait() {
                Ok(some) => removed.add(some),
                Err(unresponsive) => {
                    let Asked { receive, transmit } = asked.remove(&worker).unwrap_or_default();
                    let ports = receive.iter().chain(&transmit).map(|id| id.port);
                    lost.extend(ports.map(|port| (port, unresponsive.to_string())));
                    if !ending.has(worker) {
                        receive.iter().for_each(|id| self.queue(*id).receive = Receive::Stranded(worker));
                        transmit.iter().for_each(|id| self.queue(*id).transmit = Transmit::Stranded(worker));
                    }
                }
            }
        }
        // Workers give back the last buffers of queues behind locks with their lanes.
        drop(removed.lanes.drain(..));
        for (id, crew) in crews {
            match self.reunite(id, crew, &mut removed) {
                Ok(half) => {
                    let ingress = half.map(|half| self.ingress(id, half));
                    let receive = ingress.map_or(Receive::Down, Receive::Parked);
                    self.queue(id).receive = receive;
                }
                Err(why) => drop(lost.insert(id.port, why.to_string())),
            }
        }
        self.park(removed);
        lost
    }

    /// Asks for receive halves. Returns the crews that end.
    fn release_receive(
        &mut self,
        layout: &Layout,
        ending: Ending<'_>,
        changes: &mut Changes,
        asked: &mut HashMap<usize, Asked>,
    ) -> Vec<(QueueId, Crew)> {
        let mut crews = Vec::new();
        for (&id, queue) in &mut self.queues {
            match std::mem::take(&mut queue.receive) {
                Receive::Polled(wiring) => {
                    let is_shared = layout.crew_wiring(id).is_some();
                    let next = layout.wiring(id).filter(|_| !is_shared && !ending.has(wiring.worker));
                    if next.is_some_and(|next| wiring.leads_on(&next)) {
                        queue.receive = Receive::Polled(wiring);
                    } else {
                        changes.at(wiring.worker).leave.push(id);
                        asked.entry(wiring.worker).or_default().receive.push(id);
                    }
                }
                Receive::Crew(crew) if ending.ends_crew(id, &crew, layout) => {
                    changes.leave_crew(id, &crew.wiring);
                    if let Some(parent) = &crew.wiring.parent {
                        asked.entry(parent.worker).or_default().receive.push(id);
                    }
                    crews.push((id, crew));
                }
                other => queue.receive = other,
            }
        }
        crews
    }

    /// Asks for transmit halves, or has workers share them.
    fn release_transmit(
        &mut self,
        layout: &Layout,
        (ending, crews): (Ending<'_>, &[(QueueId, Crew)]),
        changes: &mut Changes,
        asked: &mut HashMap<usize, Asked>,
    ) {
        // A lane has outputs of its own, which end with it.
        let of_crew = |lane: QueueId| crews.iter().any(|(id, _)| *id == QueueId { lane: None, ..lane });
        let ends = |sender: Sender| ending.has(sender.worker) || sender.output.lane.is_some_and(of_crew);
        let own = self.queues.iter().filter_map(|(id, queue)| match queue.transmit {
            Transmit::Own(sender) => Some((*id, sender)),
            _ => None,
        });
        for (id, sender) in own.collect::<Vec<_>>() {
            let next = match layout.senders(id) {
                Senders::One(next) if next == sender && !ends(sender) => continue,
                // Without a gap: the worker sends there until it has another way.
                Senders::Several if !ends(sender) => {
                    let shared = Arc::new(Shared::new(None));
                    self.share_half(id, sender, &shared, changes);
                    Transmit::Shared(shared)
                }
                _ => {
                    self.take_half(id, sender, changes);
                    asked.entry(sender.worker).or_default().transmit.push(id);
                    Transmit::Down
                }
            };
            self.queue(id).transmit = next;
        }
    }

    /// Returns the half of a queue whose crew has ended, if it has come back.
    fn reunite(&mut self, id: QueueId, crew: Crew, removed: &mut Removed) -> Result<Option<ReceiveHalf>, Kept> {
        let Some(at) = removed.parents.iter().position(|(of, _)| *of == id) else { return crew.unlock() };
        let (_, mut parent) = removed.parents.swap_remove(at);
        if parent.rest() {
            return Ok(Some(parent.into_half()));
        }
        self.stranded.push(parent);
        Err(super::rest::not_given_back())
    }

    /// Parks halves that workers gave back.
    pub(super) fn park(&mut self, mut removed: Removed) {
        for (id, ingress) in removed.inputs {
            self.queue(id).receive = Receive::Parked(ingress);
        }
        let of_outputs = removed.outputs.drain(..).flat_map(|output| output.into_own());
        for (id, egress) in removed.halves.into_iter().chain(of_outputs) {
            self.queue(id).transmit = Transmit::Parked(egress);
        }
    }
}
