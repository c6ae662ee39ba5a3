//! The workers of a shared queue, and its parts for them.

use crate::clock::Cycles;
use crate::drops::Drops;
use crate::port::{Kept, ReceiveHalf};
use crate::queue_key::QueueKey;
use crate::sharing::{Lane, LockedQueue, Parent, Terms, assign};
use crate::spec::{Sharing, StaticRoles};
use crate::switch::layout::{Destination, Layout, QueueIndex};
use handover::Alarm;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The workers of a shared queue.
pub(super) struct Crew {
    way: Way,
    /// Each lane's key, and its worker.
    pub(super) lanes: Vec<(QueueKey, usize)>,
}

/// How the workers share the queue.
enum Way {
    /// This worker is the parent.
    StaticRole { parent: usize, outputs: usize, stalled_after: Duration, drops: Arc<Drops> },
    /// The queue is behind a lock, if it is up.
    Locked(Option<LockedQueue>),
}

/// The parts of a shared queue, for its workers.
pub(super) struct Parts {
    pub(super) parent: Option<Parent>,
    pub(super) lanes: Vec<Lane>,
}

/// Parts of all shared queues, by key.
#[derive(Default)]
pub(super) struct AllParts {
    pub(super) parents: HashMap<QueueKey, Parent>,
    pub(super) lanes: HashMap<QueueKey, Lane>,
}

impl Crew {
    /// Returns the crew of a queue by the layout, if several workers share it.
    pub(super) fn of(layout: &Layout, queue: QueueIndex) -> Option<Crew> {
        let sharing = layout.sharing(queue.port)?;
        let port = &layout.ports[queue.port];
        let lanes = (0..).zip(&sharing.workers).map(|(lane, &worker)| (port.lane_key(queue.queue, lane), worker));
        let outputs = match layout.destination(queue) {
            Destination::Port(_) => 1,
            Destination::Bridge(_, members) => members.len(),
            Destination::Nowhere => 0,
        };
        let way = match &sharing.way {
            Sharing::Rss => return None,
            Sharing::Locked => Way::Locked(None),
            Sharing::StaticRole(StaticRoles { stalled_after, .. }) => Way::StaticRole {
                parent: layout.poller(queue),
                outputs,
                stalled_after: *stalled_after,
                drops: port.drops.forward.clone(),
            },
        };
        Some(Crew { way, lanes: lanes.collect() })
    }

    /// Returns the worker that is the parent, if there is one.
    pub(super) fn parent(&self) -> Option<usize> {
        match self.way {
            Way::StaticRole { parent, .. } => Some(parent),
            Way::Locked(_) => None,
        }
    }

    /// Divides a queue into the parts of its workers.
    pub(super) fn divide(&mut self, half: ReceiveHalf, alarm: impl Fn(usize) -> Arc<Alarm>) -> Result<Parts, Kept> {
        let cannot = |_| Kept("several workers cannot share it: give it one worker, or rx-sharing = \"rss\"".into());
        match &mut self.way {
            Way::StaticRole { outputs, stalled_after, drops, .. } => {
                let alarms = self.lanes.iter().map(|(_, worker)| alarm(*worker)).collect();
                let stalled_after = Cycles::new().per(*stalled_after);
                let terms = Terms { outputs: *outputs, stalled_after, drops: drops.clone(), alarms };
                let (parent, lanes) = assign(half, terms).map_err(cannot)?;
                Ok(Parts { parent: Some(parent), lanes })
            }
            Way::Locked(locked) => {
                let queue = LockedQueue::new(half).map_err(cannot)?;
                let lanes = self.lanes.iter().filter_map(|_| queue.lane().map(Lane::Locked)).collect();
                *locked = Some(queue);
                Ok(Parts { parent: None, lanes })
            }
        }
    }

    /// Returns the queue from behind its lock, if it has one. Fails if a worker hangs that has locked it.
    pub(super) fn unlock(&mut self) -> Result<Option<ReceiveHalf>, Kept> {
        match &mut self.way {
            Way::Locked(locked) => locked.take().map_or(Ok(None), |queue| queue.take()),
            Way::StaticRole { .. } => Ok(None),
        }
    }
}
