//! Settings and shared state that the stages of a port are made from.

use super::aggregate::Member;
use super::mirror::MirrorTo;
use crate::answers::Answers;
use crate::counters::QueueCounters;
use crate::drops::PortDrops;
use crate::port::record::Recorder;
use crate::queue_id::QueueId;
use crate::spec::{Faults, MOST_SHARING};
use paflow::vxlan::TunnelEnd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Settings of one port, and state that its queues share: its stages are made from them.
#[derive(Clone)]
pub(crate) struct Setup {
    /// Counters of dropped frames: each stage gets those of its name.
    pub(crate) drops: Arc<PortDrops>,
    /// Number of the port's queues.
    pub(crate) queues: usize,
    /// Their counters.
    pub(crate) counters: Vec<Arc<QueueCounters>>,
    /// Number of queues up to the last one that ever was up.
    pub(crate) reported: Arc<AtomicUsize>,
    /// Whether received frames are copied first, for analysis.
    pub(crate) staged: bool,
    /// Faults to inject.
    pub(crate) faults: Option<Faults>,
    /// File that frames are recorded to.
    pub(crate) recorder: Option<Recorder>,
    /// Mirrors of the port's frames.
    pub(crate) mirrors: Vec<MirrorTo>,
    /// The tunnel that ends here.
    pub(crate) tunnel: Option<Arc<TunnelEnd>>,
    /// State for aggregation, if the port aggregates.
    pub(crate) member: Option<Member>,
    /// Answers to requests for the switch's addresses; unused if the port has none.
    pub(crate) neighbours: Arc<Answers>,
}

impl Setup {
    /// Returns the index of a queue, or of a lane, among all that have stages and counters of their own: lanes come behind the queues.
    pub(crate) fn index(&self, QueueId { queue, lane, .. }: QueueId) -> usize {
        lane.map_or(queue, |lane| self.queues + queue * MOST_SHARING + lane)
    }

    /// Returns the queue of `port`, or the lane, that has this index.
    pub(crate) fn at(&self, port: u64, index: usize) -> QueueId {
        match index.checked_sub(self.queues) {
            Some(lane) => QueueId::new(port, lane / MOST_SHARING).lane(lane % MOST_SHARING),
            None => QueueId::new(port, index),
        }
    }

    /// Reports the queue from now on, and makes room for what its stages leave to others. It is about to be up, perhaps for the
    /// first time.
    pub(crate) fn prepare(&self, id: QueueId) {
        self.reported.fetch_max(id.queue + 1, Ordering::Relaxed);
        let index = self.index(id);
        self.neighbours.prepare(index);
        if let Some(member) = &self.member {
            member.relay.prepare(index);
            member.refusals.prepare(index);
        }
    }
}
