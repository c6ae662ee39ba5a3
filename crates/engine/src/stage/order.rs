//! The order of all stages. A new stage is a line here.

use super::aggregate::{Join, Split};
use super::egress::{Egress, EgressStage};
use super::fault::FaultInjector;
use super::ingress::{IngressStage, IngressStages};
use super::list::List;
use super::merge;
use super::mirror::Mirror;
use super::record::Record;
use super::setup::Setup;
use super::staged::Staged;
use super::stopwatch::{PARENT_STEPS, SLOTS, STEPS, Stopwatch};
use super::tunnel::{Decapsulate, Encapsulate};
use crate::drops::{Drops, PortDrops};
use crate::port::TxQueue;
use crate::queue_id::QueueId;
use crate::spec::MirrorDirection::{In, Out};
use crate::spec::MirrorPoint::{Forward, Wire};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Makes the stage for a queue of a port, if the port needs it. The stage counts the frames that it drops in these counters.
type Make<S> = fn(&Setup, usize, &Arc<Drops>) -> Option<Box<S>>;

/// A row of the order: a stage, and the condition that a port needs it.
struct Row<S: ?Sized> {
    /// Name of the stage, in statistics and documents.
    name: &'static str,
    make: Make<S>,
    /// Whether the stage comes, changes and goes while the queue runs. Then it keeps nothing from burst to burst.
    is_live: bool,
}

/// Stages between a queue and forwarding.
const INGRESS: &[Row<dyn IngressStage>] = &[
    Row::fixed("staged", |on, _, _| if on.staged { Some(Box::new(Staged::new())) } else { None }),
    Row::fixed("fault", |on, _, drops| Some(Box::new(FaultInjector::new(on.faults.clone()?, drops.clone())))),
    Row::live("record", |on, _, drops| Some(Box::new(Record::new(on.recorder.clone()?, drops.clone())))),
    Row::live(Mirror::NAME, |on, queue, drops| Some(Mirror::of(&on.mirrors, In, Wire, queue, drops)?)),
    Row::fixed("decapsulate", |on, queue, drops| {
        Some(Box::new(Decapsulate::new(on.tunnel.clone()?, on.neighbours.clone(), drops.clone(), queue)))
    }),
    Row::fixed("split", |on, queue, drops| Some(Box::new(Split::new(on.member.clone()?, queue, drops.clone())))),
    Row::live(Mirror::NAME, |on, queue, drops| Some(Mirror::of(&on.mirrors, In, Forward, queue, drops)?)),
];

/// Stages between forwarding and a queue.
const EGRESS: &[Row<dyn EgressStage>] = &[
    Row::live(Mirror::NAME, |on, queue, drops| Some(Mirror::of(&on.mirrors, Out, Forward, queue, drops)?)),
    Row::fixed("join", |on, queue, drops| Some(Box::new(Join::new(on.member.clone()?, queue, drops.clone())))),
    Row::fixed("encapsulate", |on, _, drops| Some(Box::new(Encapsulate::new(on.tunnel.clone()?, drops.clone())))),
    Row::live("record", |on, _, drops| Some(Box::new(Record::new(on.recorder.clone()?, drops.clone())))),
    Row::live(Mirror::NAME, |on, queue, drops| Some(Mirror::of(&on.mirrors, Out, Wire, queue, drops)?)),
];

/// Slots of the first stage of either order in a worker's stopwatch.
const INGRESS_SLOT: usize = STEPS.len();
const EGRESS_SLOT: usize = INGRESS_SLOT + INGRESS.len();

const _: () = assert!(EGRESS_SLOT + EGRESS.len() <= SLOTS, "the stopwatch has a slot for each stage");

impl<S: ?Sized> Row<S> {
    /// A stage that stays as long as its queue is up.
    const fn fixed(name: &'static str, make: Make<S>) -> Row<S> {
        Row { name, make, is_live: false }
    }

    /// A stage that comes, changes and goes while its queue runs.
    const fn live(name: &'static str, make: Make<S>) -> Row<S> {
        Row { name, make, is_live: true }
    }

    /// Returns the stage for a queue of a port, if the port needs it.
    fn stage(&self, setup: &Setup, id: QueueId) -> Option<Box<S>> {
        (self.make)(setup, setup.index(id), setup.drops.stage(self.name))
    }
}

impl IngressStages {
    /// Returns the stages that a queue of a port, or a lane of one, needs.
    pub(crate) fn of(setup: &Setup, id: QueueId) -> IngressStages {
        let mut stages = IngressStages::none();
        fill(INGRESS, INGRESS_SLOT, &mut stages.0, |row| Some(row.stage(setup, id)));
        stages
    }

    /// Replaces the stages that may change while the queue runs.
    pub(crate) fn refresh(&mut self, setup: &Setup, id: QueueId) {
        fill(INGRESS, INGRESS_SLOT, &mut self.0, |row| row.is_live.then(|| row.stage(setup, id)));
    }
}

impl Egress {
    /// Returns a queue of a port, with the stages that the port needs, and merging behind all of them.
    pub(crate) fn with_stages(half: Box<dyn TxQueue>, setup: &Setup, id: QueueId) -> Egress {
        let mut egress = Egress::new(merge::before(half, &setup.counters[id.queue]));
        fill(EGRESS, EGRESS_SLOT, &mut egress.stages, |row| Some(row.stage(setup, id)));
        egress
    }

    /// See [`IngressStages::refresh`].
    pub(crate) fn refresh(&mut self, setup: &Setup, id: QueueId) {
        fill(EGRESS, EGRESS_SLOT, &mut self.stages, |row| row.is_live.then(|| row.stage(setup, id)));
    }
}

/// Puts what `make` returns for each of the `rows` in its place; leaves alone those for which it returns nothing.
fn fill<S: ?Sized>(
    rows: &[Row<S>],
    first_slot: usize,
    stages: &mut List<S>,
    make: impl Fn(&Row<S>) -> Option<Option<Box<S>>>,
) {
    for (place, row) in rows.iter().enumerate() {
        if let Some(stage) = make(row) {
            stages.put(place, first_slot + place, stage);
        }
    }
}

/// Returns the names of all rows, in the order of their slots. A name may stand in several rows.
fn names() -> impl Iterator<Item = &'static str> {
    INGRESS.iter().map(|row| row.name).chain(EGRESS.iter().map(|row| row.name))
}

/// Returns the counters of a port's drops: those of each stage, of its queues and of forwarding.
pub(crate) fn drops() -> Arc<PortDrops> {
    Arc::new(PortDrops::new(names()))
}

/// Returns the cycles of a worker's steps and of the stages that ran, by name.
pub(crate) fn cycles(watch: &Stopwatch) -> BTreeMap<&'static str, u64> {
    let is_shown = |slot: usize| slot < STEPS.len() || watch.spent(slot) > 0;
    let mut cycles = BTreeMap::new();
    for (slot, name) in STEPS.into_iter().chain(names()).enumerate().filter(|(slot, _)| is_shown(*slot)) {
        *cycles.entry(name).or_default() += watch.spent(slot);
    }
    cycles.retain(|step, _| !PARENT_STEPS.contains(step));
    cycles
}

/// Returns the cycles of the steps that a worker made as a parent, by name.
pub(crate) fn parent_cycles(watch: &Stopwatch) -> BTreeMap<&'static str, u64> {
    let steps = STEPS.into_iter().enumerate().filter(|(_, step)| PARENT_STEPS.contains(step));
    steps.map(|(slot, step)| (step, watch.spent(slot))).filter(|(_, cycles)| *cycles > 0).collect()
}

#[cfg(test)]
mod tests;
