//! Queues that several workers share: their parents and lanes go to the workers, and come back, together.

use super::crew::{AllParts, Crew, Parts};
use super::{Fabric, FabricState, Halves};
use crate::port::{Kept, ReceiveHalf};
use crate::queue_key::QueueKey;
use crate::sharing::Parent;
use crate::switch::layout::{Layout, QueueIndex};
use crate::worker::{Answer, Plan};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time that all frames of a shared queue have to come back from workers that respond.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which the control side asks whether they have.
const INTERVAL: Duration = Duration::from_millis(1);

impl Fabric {
    /// Gives a queue to the workers that share it. See [`Fabric::attach_receive`]. Returns the half if they do not.
    pub(super) fn attach_shared(&self, key: QueueKey, half: ReceiveHalf) -> Result<Option<ReceiveHalf>, Kept> {
        let attached = {
            let mut state = self.state();
            if !state.crews.contains_key(&key) {
                return Ok(Some(half));
            }
            state.setups.get(&key.port).iter().for_each(|setup| setup.prepare(key.queue));
            state.attach_parts(key, half)
        };
        let attached = attached.and_then(|asked| Ok(asked.into_iter().try_for_each(Answer::wait)?));
        attached.inspect_err(|_| drop(self.detach_shared(key))).map(|()| None)
    }

    /// Reports whether several workers share a queue.
    pub(super) fn is_shared(&self, key: QueueKey) -> bool {
        self.state().crews.contains_key(&key)
    }

    /// Takes a queue from the workers that share it: once all frames have come back, so that none of them is in use any more. See
    /// [`Fabric::detach_receive`].
    pub(super) fn detach_shared(&self, key: QueueKey) -> Result<Option<ReceiveHalf>, Kept> {
        self.wait_until_rests(key)?;
        let asked = self.state().ask_lanes(key, |plan, lane| drop(plan.detach_lane(lane)));
        asked.into_iter().try_for_each(Answer::wait)?;
        let parent = self.state().ask_parent(key, move |plan| plan.detach_parent(key));
        let parent = parent.map(Answer::wait).transpose()?.flatten();
        match parent {
            Some(parent) => Ok(Some(parent.into_half())),
            None => self.state().crews.get_mut(&key).map_or(Ok(None), Crew::unlock),
        }
    }

    /// Has the parent of a queue receive nothing more, if it has one, and waits until all frames have come back.
    fn wait_until_rests(&self, key: QueueKey) -> Result<(), Kept> {
        let began = Instant::now();
        loop {
            // The lock is not held while this waits.
            let rests = self.state().ask_to_rest(key);
            if rests.map(Answer::wait).transpose()?.unwrap_or(true) {
                return Ok(());
            }
            // A worker that does not respond has the frames.
            let asked = self.state().ask_lanes(key, |_, _| ());
            asked.into_iter().try_for_each(Answer::wait)?;
            if began.elapsed() > PATIENCE {
                return Err(Kept(
                    "workers do not give its frames back; `millrace ctl workers` shows where each is".into(),
                ));
            }
            std::thread::sleep(INTERVAL);
        }
    }
}

impl FabricState {
    /// Asks the workers of a crew to take their parts of a queue.
    fn attach_parts(&mut self, key: QueueKey, half: ReceiveHalf) -> Result<Vec<Answer<()>>, Kept> {
        let FabricState { crews, workers, .. } = self;
        let crew = crews.get_mut(&key).expect("the caller found it");
        let Parts { parent, lanes } = crew.divide(half, |worker| workers[worker].1.alarm())?;
        let mut asked = Vec::new();
        for (&(lane_key, worker), lane) in crew.lanes.iter().zip(lanes) {
            asked.push(workers[worker].1.offer(move |plan| plan.attach_lane(lane_key, lane))?);
        }
        if let Some((parent, worker)) = parent.zip(crew.parent()) {
            asked.push(workers[worker].1.offer(move |plan| plan.attach_parent(key, parent))?);
        }
        Ok(asked)
    }

    /// Asks the parent of a queue, if it has one, to receive nothing more, and whether all frames have come back.
    fn ask_to_rest(&self, key: QueueKey) -> Option<Answer<bool>> {
        self.ask_parent(key, move |plan| plan.rest(key))
    }

    fn ask_parent<R: Send + 'static>(
        &self,
        key: QueueKey,
        job: impl FnOnce(&mut Plan) -> R + Send + 'static,
    ) -> Option<Answer<R>> {
        let parent = self.crews.get(&key)?.parent()?;
        Some(self.workers[parent].1.ask(job))
    }

    /// Asks the workers of all lanes of a queue.
    fn ask_lanes(&self, key: QueueKey, job: fn(&mut Plan, QueueKey)) -> Vec<Answer<()>> {
        let lanes = self.crews.get(&key).map_or(&[][..], |crew| &crew.lanes);
        let ask = |&(lane, worker): &(QueueKey, usize)| self.workers[worker].1.ask(move |plan| job(plan, lane));
        lanes.iter().map(ask).collect()
    }

    /// Has all shared queues rest: waits until their frames have come back, or for [`PATIENCE`].
    pub(super) fn rest_all(&self) {
        let began = Instant::now();
        let mut waiting: Vec<QueueKey> = self.crews.keys().copied().collect();
        while !waiting.is_empty() && began.elapsed() < PATIENCE {
            let asked: Vec<_> = waiting.iter().map(|&key| self.ask_to_rest(key)).collect();
            let rests = |answer: Option<Answer<bool>>| answer.is_none_or(|answer| answer.wait().unwrap_or(true));
            let resting: Vec<bool> = asked.into_iter().map(rests).collect();
            let mut resting = resting.into_iter();
            waiting.retain(|_| !resting.next().unwrap_or(true));
            if !waiting.is_empty() {
                std::thread::sleep(INTERVAL);
            }
        }
    }

    /// Takes back the halves of shared queues. Workers have no parts of them any more, except for `parents` that they gave back.
    /// Returns the keys of queues whose frames have not come back.
    pub(super) fn collect_shared(
        &mut self,
        parents: impl IntoIterator<Item = (QueueKey, Parent)>,
        halves: &mut HashMap<QueueKey, ReceiveHalf>,
    ) -> Vec<QueueKey> {
        let mut kept = Vec::new();
        self.stranded.retain_mut(|parent| !parent.give_up());
        for (key, mut parent) in parents {
            if parent.rest() {
                halves.insert(key, parent.into_half());
            } else {
                kept.push(key);
                self.stranded.push(parent);
            }
        }
        for (key, mut crew) in self.crews.drain() {
            match crew.unlock() {
                Ok(half) => halves.extend(half.map(|half| (key, half))),
                Err(_) => kept.push(key),
            }
        }
        kept
    }

    /// Sets up the crews of `layout`, and divides those of their queues that are up.
    pub(super) fn divide_all(&mut self, layout: &Layout, halves: &mut Halves) -> AllParts {
        let mut parts = AllParts::default();
        for (index, port) in layout.ports.iter().enumerate() {
            for queue in 0..port.queues.len() {
                let (key, queue) = (port.key(queue), QueueIndex { port: index, queue });
                let Some(mut crew) = Crew::of(layout, queue) else { continue };
                if let Some(ingress) = halves.receive.remove(&key) {
                    match crew.divide(ingress.half, |worker| self.workers[worker].1.alarm()) {
                        Ok(Parts { parent, lanes }) => {
                            parts.parents.extend(parent.map(|parent| (key, parent)));
                            parts.lanes.extend(crew.lanes.iter().map(|(key, _)| *key).zip(lanes));
                        }
                        Err(why) => tracing::error!("port \"{}\" queue {} is down: {why}", port.name, key.queue),
                    }
                }
                self.crews.insert(key, crew);
            }
        }
        parts
    }
}
