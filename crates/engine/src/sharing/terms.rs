//! Terms on which a queue is shared.

use crate::drops::Drops;
use handover::Alarm;
use std::sync::Arc;

/// Terms on which a queue is shared.
pub(crate) struct Terms {
    /// Number of outputs that lanes hand frames over for.
    pub(crate) outputs: usize,
    /// Cycles after which a worker that holds the oldest batch counts as stalled.
    pub(crate) stalled_after: u64,
    /// Counters of frames that stalled workers held.
    pub(crate) drops: Arc<Drops>,
    /// The alarm of each lane's worker.
    pub(crate) alarms: Vec<Arc<Alarm>>,
}
