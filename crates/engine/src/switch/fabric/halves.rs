//! Halves of queues come and go, each by itself.

use super::Fabric;
use super::changes::Changes;
use super::queue::{Receive, Side, Transmit};
use super::rest::not_given_back;
use crate::forward::HalfStep;
use crate::port::{Kept, ReceiveHalf, TransmitHalf};
use crate::queue_id::QueueId;
use crate::stage::shared::Stuck;
use crate::worker::{Answer, Removed, Unresponsive};
use vhost_user::Event;

impl Fabric {
    /// Gives a queue that is up to the worker that polls it, or to those that share it, and waits until they have it. A worker
    /// that does not respond drops the half later.
    pub(in crate::switch) fn attach_receive(&self, id: QueueId, half: ReceiveHalf) -> Result<(), Kept> {
        drop(self.detach_receive(id)?);
        let placed = {
            let mut state = self.state();
            state.check(state.layout.receivers(id))?;
            let ingress = state.ingress(id, half);
            state.queue(id).receive = Receive::Parked(ingress);
            let mut changes = Changes::default();
            let failed = state.place_receive(&[id], &mut changes);
            let asked = state.ask(changes);
            failed.into_iter().next().map_or(Ok(asked), |(_, why)| Err(why))
        };
        let attached = placed.and_then(|asked| Ok(wait_for_all(asked)?));
        attached.inspect_err(|_| drop(self.detach_receive(id)))
    }

    /// Takes a queue from its workers. When this returns, none of its frames is in use any more. A worker that does not
    /// respond drops the half later.
    pub(in crate::switch) fn detach_receive(&self, id: QueueId) -> Result<Option<ReceiveHalf>, Kept> {
        self.wait_until_rest(vec![id]).pop().map_or(Ok(()), |(_, why)| Err(why))?;
        let (receive, asked) = {
            let mut state = self.state();
            let Some(queue) = state.queues.get_mut(&id) else { return Ok(None) };
            let receive = std::mem::take(&mut queue.receive);
            let mut changes = Changes::default();
            match &receive {
                Receive::Polled(wiring) => changes.at(wiring.worker).leave.push(id),
                Receive::Crew(crew) => changes.leave_crew(id, &crew.wiring),
                Receive::Down | Receive::Parked(_) => {}
            }
            (receive, state.ask_for(id, Side::Receive, changes))
        };
        let gathered = self.gather(id, Side::Receive, asked);
        match receive {
            Receive::Down => gathered.map(|_| None),
            Receive::Parked(ingress) => gathered.map(|_| Some(ingress.half)),
            Receive::Polled(_) => gathered.map(|mut removed| Some(removed.inputs.pop()?.1.half)),
            Receive::Crew(crew) => {
                self.state().clear_lanes(&crew.wiring);
                // Workers give back the last buffers of a queue behind a lock with their lanes.
                let parent = gathered.map(|mut removed| {
                    removed.lanes.clear();
                    removed.parents.pop()
                });
                let unlocked = crew.unlock();
                let Some((_, mut parent)) = parent? else { return unlocked };
                if !parent.rest() {
                    // A reload has divided the queue once more since it rested.
                    self.state().stranded.push(parent);
                    return Err(not_given_back());
                }
                Ok(Some(parent.into_half()))
            }
        }
    }

    /// Replaces the kick descriptor of a queue.
    pub(in crate::switch) fn rewire(&self, id: QueueId, kick: Option<Event>) -> Result<(), Kept> {
        let mut state = self.state();
        let state = &mut *state;
        match state.queues.get_mut(&id).map(|queue| &mut queue.receive) {
            Some(Receive::Polled(wiring)) => {
                drop(state.posts[wiring.worker].worker.offer(move |plan| plan.rewire(id, kick))?)
            }
            Some(Receive::Parked(ingress)) => {
                if let Some(half) = ingress.half.life_cycle() {
                    half.rewire(kick);
                }
            }
            Some(Receive::Crew(crew)) => match &crew.wiring.parent {
                Some(parent) => drop(state.posts[parent.worker].worker.offer(move |plan| plan.rewire(id, kick))?),
                None => crew.rewire(kick)?,
            },
            Some(Receive::Down) | None => {}
        }
        Ok(())
    }

    /// Like [`Fabric::attach_receive`], for the transmit half.
    pub(in crate::switch) fn attach_transmit(&self, id: QueueId, half: TransmitHalf) -> Result<(), Kept> {
        drop(self.detach_transmit(id)?);
        let asked = {
            let mut state = self.state();
            let egress = state.egress(id, half);
            let running = state.running(id.port);
            let queue = state.queue(id);
            if let Transmit::Shared(shared) = &queue.transmit {
                *shared.lock()? = Some(egress);
                running.set(id.queue, true);
                return Ok(());
            }
            queue.transmit = Transmit::Parked(egress);
            let mut changes = Changes::default();
            state.place_transmit(id, &mut changes);
            state.ask(changes)
        };
        let attached = wait_for_all(asked);
        let state = self.state();
        if state.queues.get(&id).is_some_and(|queue| matches!(queue.transmit, Transmit::Shared(_))) {
            // Workers that do not respond will send there, too, when they do.
            state.running(id.port).set(id.queue, true);
            return Ok(());
        }
        drop(state);
        Ok(attached.inspect_err(|_| drop(self.detach_transmit(id)))?)
    }

    /// Like [`Fabric::detach_receive`], for the transmit half.
    pub(in crate::switch) fn detach_transmit(&self, id: QueueId) -> Result<Option<TransmitHalf>, Kept> {
        let (transmit, asked) = {
            let mut state = self.state();
            state.running(id.port).set(id.queue, false);
            let Some(queue) = state.queues.get_mut(&id) else { return Ok(None) };
            let transmit = std::mem::take(&mut queue.transmit);
            let mut changes = Changes::default();
            match &transmit {
                Transmit::Own(sender) => state.step(id, *sender, HalfStep::Take, &mut changes),
                Transmit::Shared(shared) => queue.transmit = Transmit::Shared(shared.clone()),
                Transmit::Down | Transmit::Parked(_) => {}
            }
            (transmit, state.ask_for(id, Side::Transmit, changes))
        };
        let gathered = self.gather(id, Side::Transmit, asked);
        match transmit {
            Transmit::Down => gathered.map(|_| None),
            Transmit::Parked(egress) => gathered.map(|_| Some(egress.half)),
            Transmit::Shared(shared) => {
                let egress = shared.lock()?.take();
                gathered.map(|_| egress.map(|egress| egress.half))
            }
            Transmit::Own(sender) => {
                let mut removed = gathered?;
                if !removed.stuck.is_empty() {
                    self.state().queue(id).transmit = Transmit::Own(sender);
                    return Err(Stuck.into());
                }
                Ok(removed.halves.pop().map(|(_, egress)| egress.half))
            }
        }
    }

    /// Takes queues of a port from their workers, for good; a worker that does not respond drops them later.
    pub(in crate::switch) fn clear(&self, port: u64, queues: std::ops::Range<usize>) {
        for id in queues.map(|queue| QueueId::new(port, queue)) {
            let cleared = self.detach_receive(id).err().into_iter().chain(self.detach_transmit(id).err());
            cleared.for_each(|why| tracing::error!("a queue is left with its worker: {why}"));
        }
    }

    /// Waits for workers that were asked for a half of a queue, and returns all that they gave back. Those that do not respond keep it.
    fn gather(&self, id: QueueId, side: Side, asked: Vec<Answer<Removed>>) -> Result<Removed, Kept> {
        let (mut removed, mut responded, mut failed) = (Removed::default(), Vec::new(), None);
        for answer in asked {
            let pulse = answer.pulse().clone();
            match answer.wait() {
                Ok(some) => {
                    removed.add(some);
                    responded.push(pulse);
                }
                Err(why) => failed = Some(why),
            }
        }
        if let Some(queue) = self.state().queues.get_mut(&id).filter(|_| !responded.is_empty()) {
            queue.keepers(side).forget(&responded);
        }
        failed.map_or(Ok(removed), |why| Err(why.into()))
    }
}

/// Waits for all of these answers.
fn wait_for_all(asked: Vec<Answer<Removed>>) -> Result<(), Unresponsive> {
    asked.into_iter().map(|answer| answer.wait().map(drop)).fold(Ok(()), Result::and)
}
