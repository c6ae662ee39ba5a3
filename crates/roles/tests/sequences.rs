//! Random sequences of steps, compared with a model of lists. Workers are threads, so that each can hold a claim, and do
//! one step at a time when they are told to.
#![cfg(not(loom))]

use proptest::prelude::*;
use roles::{Outcome, Worker, share};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope};

const WORKERS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    Publish,
    Release,
    LeaveBehind,
    /// These are of a worker.
    Claim(usize),
    Complete(usize),
    Abandon(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Publish),
        3 => Just(Step::Release),
        2 => Just(Step::LeaveBehind),
        4 => (0..WORKERS).prop_map(Step::Claim),
        3 => (0..WORKERS).prop_map(Step::Complete),
        1 => (0..WORKERS).prop_map(Step::Abandon),
    ]
}

/// A worker in a thread of its own.
struct Remote {
    order: SyncSender<Step>,
    /// Of a claim: its number and the batch's content. Of all other steps: `None`.
    done: Receiver<Option<(u64, u64)>>,
}

impl Remote {
    fn start<'scope>(scope: &'scope Scope<'scope, '_>, mut worker: Worker<u64>) -> Remote {
        let (order, orders) = sync_channel(0);
        let (report, done) = sync_channel(0);
        scope.spawn(move || {
            while orders.recv().is_ok() {
                let Some(claim) = worker.claim() else {
                    report.send(None).unwrap();
                    continue;
                };
                report.send(Some((claim.sequence(), *claim))).unwrap();
                match orders.recv() {
                    Ok(Step::Complete(_)) => claim.complete(),
                    _ => drop(claim),
                }
                // Nobody may be waiting for it at the end.
                let _ = report.send(None);
            }
        });
        Remote { order, done }
    }

    fn run(&self, step: Step) -> Option<(u64, u64)> {
        self.order.send(step).unwrap();
        self.done.recv().unwrap()
    }
}

/// A batch that is published, as the model knows it.
#[derive(Clone, Copy)]
struct Published {
    number: u64,
    is_claimed: bool,
    is_left_behind: bool,
    outcome: Option<Outcome>,
}

/// The batches of a queue, the oldest first; those left behind apart.
#[derive(Default)]
struct Model {
    published: u64,
    queue: VecDeque<Published>,
    left_behind: Vec<Published>,
    /// The claim of each worker.
    claims: [Option<u64>; WORKERS],
}

impl Model {
    fn claim(&mut self, worker: usize) -> Option<u64> {
        let oldest = self.queue.iter_mut().find(|batch| !batch.is_claimed)?;
        oldest.is_claimed = true;
        self.claims[worker] = Some(oldest.number);
        Some(oldest.number)
    }

    /// Ends the claim of a worker; reports whether it had one.
    fn end(&mut self, worker: usize, is_complete: bool) -> bool {
        let Some(number) = self.claims[worker].take() else { return false };
        let mut all = self.queue.iter_mut().chain(&mut self.left_behind);
        let batch = all.find(|batch| batch.number == number).unwrap();
        batch.outcome = Some(match is_complete {
            false => Outcome::Abandoned,
            true if batch.is_left_behind => Outcome::Late,
            true => Outcome::Complete,
        });
        true
    }

    fn in_use(&self) -> usize {
        self.queue.len() + self.left_behind.len()
    }

    fn oldest(&self) -> Option<u64> {
        self.queue.front().filter(|batch| batch.is_claimed && batch.outcome.is_none()).map(|batch| batch.number)
    }

    fn release(&mut self) -> Vec<(u64, Outcome)> {
        let mut released = Vec::new();
        while let Some(Published { number, outcome: Some(outcome), .. }) = self.queue.front().copied() {
            released.push((number, outcome));
            self.queue.pop_front();
        }
        let back = self.left_behind.extract_if(.., |batch| batch.outcome.is_some());
        let mut back: Vec<_> = back.map(|batch| (batch.number, batch.outcome.unwrap())).collect();
        back.sort_by_key(|(number, _)| *number);
        released.extend(back);
        released
    }
}

/// Returns the released batches, those left behind in the order of their numbers: they come in any order.
fn in_order(mut released: Vec<(u64, Outcome)>, left_behind: &[Published]) -> Vec<(u64, Outcome)> {
    let is_left_behind = |number| left_behind.iter().any(|batch| batch.number == number);
    let first = released.iter().position(|(number, _)| is_left_behind(*number)).unwrap_or(released.len());
    released[first..].sort_by_key(|(number, _)| *number);
    released
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 200 }, failure_persistence: None, ..Default::default() })]

    #[test]
    fn each_step_matches_the_lists(
        room in prop::sample::select(&[1usize, 2, 4][..]),
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 30 } else { 150 }),
    ) {
        let (mut parent, workers) = share(room, WORKERS, || 0);
        let mut model = Model::default();
        thread::scope(|scope| {
            let workers: Vec<_> = workers.into_iter().map(|worker| Remote::start(scope, worker)).collect();
            for step in steps {
                match step {
                    Step::Publish => match parent.free() {
                        Some(mut batch) => {
                            prop_assert!(model.queue.len() < room, "bounded");
                            let number = model.published;
                            model.published += 1;
                            *batch = 1000 + number;
                            batch.publish();
                            let published = Published { number, is_claimed: false, is_left_behind: false, outcome: None };
                            model.queue.push_back(published);
                        }
                        None => prop_assert!(model.queue.len() == room || model.in_use() == room + WORKERS),
                    },
                    Step::Release => {
                        let mut released = Vec::new();
                        let count = parent.release(|batch, outcome| released.push((*batch - 1000, outcome)));
                        prop_assert_eq!(count, released.len());
                        let released = in_order(released, &model.left_behind);
                        prop_assert_eq!(released, model.release());
                        prop_assert!(model.left_behind.len() <= WORKERS, "each worker withholds one batch at most");
                    }
                    Step::LeaveBehind => {
                        let oldest = model.oldest();
                        prop_assert_eq!(parent.oldest(), oldest);
                        prop_assert_eq!(parent.leave_behind(), oldest.is_some());
                        if oldest.is_some() {
                            let batch = model.queue.pop_front().unwrap();
                            model.left_behind.push(Published { is_left_behind: true, ..batch });
                        }
                    }
                    Step::Claim(worker) if model.claims[worker].is_none() => {
                        let claimed = model.claim(worker);
                        let claimed = claimed.map(|number| (number, 1000 + number));
                        prop_assert_eq!(workers[worker].run(step), claimed);
                    }
                    Step::Complete(worker) | Step::Abandon(worker) => {
                        if model.end(worker, matches!(step, Step::Complete(_))) {
                            workers[worker].run(step);
                        }
                    }
                    Step::Claim(_) => {}
                }
                prop_assert_eq!(parent.left_behind(), model.left_behind.len());
                prop_assert_eq!(parent.outstanding(), model.in_use());
            }
            Ok(())
        })?;
    }
}
