//! Settings and shared state that the stages of a port are made from.

use super::aggregate::Member;
use super::mirror::MirrorTo;
use crate::answers::Answers;
use crate::drops::PortDrops;
use crate::port::record::Recorder;
use crate::spec::Faults;
use paflow::vxlan::TunnelEnd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Settings of one port, and state that its queues share: its stages are made from them.
#[derive(Clone)]
pub(crate) struct Setup {
    /// Counters of dropped frames: each stage gets those of its name.
    pub(crate) drops: Arc<PortDrops>,
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
    /// Reports `queue` from now on, and makes room for what its stages leave to others. It is about to be up, perhaps for the
    /// first time.
    pub(crate) fn prepare(&self, queue: usize) {
        self.reported.fetch_max(queue + 1, Ordering::Relaxed);
        self.prepare_stages(queue);
    }

    /// Makes room for what the stages of `queue`, or of a lane with this index, leave to others.
    pub(crate) fn prepare_stages(&self, queue: usize) {
        self.neighbours.prepare(queue);
        if let Some(member) = &self.member {
            member.relay.prepare(queue);
            member.refusals.prepare(queue);
        }
    }
}
