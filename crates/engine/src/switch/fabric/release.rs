//! Queues leave the workers that lose them by a new layout: each of them is parked then.

use super::FabricState;
use super::changes::Changes;
use super::crew::Crew;
use super::ending::Ending;
use super::queue::{Receive, Side, Transmit};
use super::rest::not_given_back;
use crate::forward::HalfStep;
use crate::port::{Kept, ReceiveHalf};
use crate::queue_id::QueueId;
use crate::stage::shared::{Shared, Stuck};
use crate::switch::layout::{Layout, Sender, Senders};
use crate::worker::{Removed, Worker};
use std::collections::HashMap;
use std::sync::Arc;

/// Reasons why ports have lost queues, by id.
type Lost = HashMap<u64, String>;

/// A release under way: from whom the queues are asked that do not stay.
struct Release<'l> {
    layout: &'l Layout,
    ending: Ending<'l>,
    changes: Changes,
    /// By worker.
    asked: HashMap<usize, Asked>,
    /// Crews that end.
    crews: Vec<(QueueId, Crew)>,
}

/// Halves that a worker was asked for.
#[derive(Default)]
struct Asked {
    receive: Vec<QueueId>,
    transmit: Vec<(QueueId, Sender)>,
}

impl Release<'_> {
    /// Asks for the receive halves that do not stay.
    fn ask_receive(&mut self, state: &mut FabricState) {
        for (&id, queue) in &mut state.queues {
            match std::mem::take(&mut queue.receive) {
                Receive::Polled(wiring) => {
                    let is_shared = self.layout.crew_wiring(id).is_some();
                    let next = self.layout.wiring(id).filter(|_| !is_shared && !self.ending.has(wiring.worker));
                    if next.is_some_and(|next| wiring.leads_on(&next)) {
                        queue.receive = Receive::Polled(wiring);
                    } else {
                        self.changes.at(wiring.worker).leave.push(id);
                        self.asked.entry(wiring.worker).or_default().receive.push(id);
                    }
                }
                Receive::Crew(crew) if self.ending.ends_crew(id, &crew, self.layout) => {
                    self.changes.leave_crew(id, &crew.wiring);
                    if let Some(parent) = &crew.wiring.parent {
                        self.asked.entry(parent.worker).or_default().receive.push(id);
                    }
                    self.crews.push((id, crew));
                }
                other => queue.receive = other,
            }
        }
    }

    /// Asks for the transmit halves that do not stay, or has workers share them.
    fn ask_transmit(&mut self, state: &mut FabricState) {
        let own = state.queues.iter().filter_map(|(id, queue)| match queue.transmit {
            Transmit::Own(sender) => Some((*id, sender)),
            _ => None,
        });
        for (id, sender) in own.collect::<Vec<_>>() {
            let next = match self.layout.senders(id) {
                Senders::One(next) if next == sender && !self.ending.has(sender.worker) => continue,
                // Without a gap: the worker sends there until it has another way.
                Senders::Several if !self.ending.has(sender.worker) => {
                    let shared = Arc::new(Shared::new(None));
                    state.step(id, sender, HalfStep::Share(shared.clone()), &mut self.changes);
                    Transmit::Shared(shared)
                }
                _ => {
                    state.step(id, sender, HalfStep::Take, &mut self.changes);
                    Transmit::Down
                }
            };
            self.asked.entry(sender.worker).or_default().transmit.push((id, sender));
            state.queue(id).transmit = next;
        }
    }
}

impl FabricState {
    /// Takes the queues from workers that `layout` gives to others or to nobody, or whose frames it sends another way, and those of
    /// workers that end when those in `spawned` are added. Crews that do not go on rest. Queues to which several workers send by
    /// `layout` are shared from now on. Returns the ports of queues that do not come back, with reasons.
    pub(super) fn release(&mut self, layout: &Layout, spawned: &[Option<Worker>]) -> Lost {
        self.stranded.retain_mut(|parent| !parent.give_up());
        let (ending, asked) = (Ending::by(spawned), HashMap::new());
        self.rest_again(layout, ending);
        let mut release = Release { layout, ending, changes: Changes::default(), asked, crews: Vec::new() };
        release.ask_receive(self);
        release.ask_transmit(self);
        let Release { changes, mut asked, crews, .. } = release;
        let answers: Vec<_> =
            changes.into_some().map(|(worker, change)| (worker, self.ask_one(worker, change))).collect();
        let (mut lost, mut removed) = (Lost::new(), Removed::default());
        for (worker, answer) in answers {
            match answer.wait() {
                Ok(some) => removed.add(some),
                Err(why) => self.strand(worker, asked.remove(&worker).unwrap_or_default(), &why.to_string(), &mut lost),
            }
        }
        // Workers give back the last buffers of queues behind locks with their lanes.
        removed.lanes.clear();
        for (id, crew) in crews {
            match self.reunite(id, crew, &mut removed) {
                Ok(None) => {}
                Ok(Some(half)) => self.queue(id).receive = Receive::Parked(self.ingress(id, half)),
                Err(why) => drop(lost.insert(id.port, why.to_string())),
            }
        }
        lost.extend(removed.stuck.iter().map(|id| (id.port, Stuck.to_string())));
        self.park(removed);
        lost
    }

    /// Notes that a worker keeps halves that it was asked for, and their ports.
    fn strand(&mut self, worker: usize, Asked { receive, transmit }: Asked, why: &str, lost: &mut Lost) {
        let pulse = self.posts[worker].worker.pulse.clone();
        for id in receive {
            self.queue(id).keepers(Side::Receive).add([&pulse].into_iter());
            lost.insert(id.port, why.to_owned());
        }
        let mut changes = Changes::default();
        for (id, sender) in transmit {
            let queue = self.queue(id);
            queue.transmit = Transmit::Down;
            queue.keepers(Side::Transmit).add([&pulse].into_iter());
            lost.insert(id.port, why.to_owned());
            // Nobody else will have it, so that it is not shared either.
            self.step(id, sender, HalfStep::Take, &mut changes);
        }
        drop(self.ask(changes));
    }

    /// Returns the half of a queue whose crew has ended, if it has come back.
    fn reunite(&mut self, id: QueueId, crew: Crew, removed: &mut Removed) -> Result<Option<ReceiveHalf>, Kept> {
        let Some(at) = removed.parents.iter().position(|(of, _)| *of == id) else { return crew.unlock() };
        let (_, mut parent) = removed.parents.swap_remove(at);
        if parent.rest() {
            return Ok(Some(parent.into_half()));
        }
        self.stranded.push(parent);
        Err(not_given_back())
    }

    /// Parks halves that workers gave back.
    fn park(&mut self, removed: Removed) {
        for (id, ingress) in removed.inputs {
            self.queue(id).receive = Receive::Parked(ingress);
        }
        for (id, egress) in removed.halves {
            self.queue(id).transmit = Transmit::Parked(egress);
        }
    }
}
