//! The workers of a shared queue, and its parts for them.

use crate::clock::Cycles;
use crate::drops::Drops;
use crate::port::{Kept, ReceiveHalf};
use crate::sharing::{Lane, LockedQueue, Parent, Terms, assign};
use crate::spec::{Sharing, StaticRoles};
use crate::switch::layout::CrewWiring;
use handover::Alarm;
use std::sync::Arc;
use vhost_user::Event;

/// The workers of a shared queue that is up.
pub(super) struct Crew {
    pub(super) wiring: CrewWiring,
    /// The queue, if it is behind a lock.
    locked: Option<LockedQueue>,
}

/// The parts of a shared queue, for its workers.
pub(super) struct Shares {
    pub(super) parent: Option<Parent>,
    pub(super) lanes: Vec<Lane>,
}

impl Crew {
    /// Divides a queue among its workers, whose alarms these are, by lane. Frames that stalled workers held are counted in `drops`.
    pub(super) fn divide(
        wiring: CrewWiring,
        half: ReceiveHalf,
        alarms: Vec<Arc<Alarm>>,
        drops: &Arc<Drops>,
    ) -> Result<(Crew, Shares), Kept> {
        let cannot = |_| Kept("several workers cannot share it: give it one worker, or rx-sharing = \"rss\"".into());
        match &wiring.sharing.way {
            Sharing::StaticRole(StaticRoles { stalled_after, .. }) => {
                let outputs = wiring.parent.as_ref().map_or(0, |parent| parent.outputs.len());
                let stalled_after = Cycles::new().per(*stalled_after);
                let terms = Terms { outputs, stalled_after, drops: drops.clone(), alarms };
                let (parent, lanes) = assign(half, terms).map_err(cannot)?;
                Ok((Crew { wiring, locked: None }, Shares { parent: Some(parent), lanes }))
            }
            Sharing::Locked | Sharing::Rss => {
                let queue = LockedQueue::new(half).map_err(cannot)?;
                let lanes = wiring.lanes.iter().filter_map(|_| queue.lane().map(Lane::Locked)).collect();
                Ok((Crew { wiring, locked: Some(queue) }, Shares { parent: None, lanes }))
            }
        }
    }

    /// Replaces the kick descriptor of a queue behind a lock. Fails if a worker hangs that has locked it.
    pub(super) fn rewire(&self, kick: Option<Event>) -> Result<(), Kept> {
        self.locked.as_ref().map_or(Ok(()), |queue| queue.rewire(kick))
    }

    /// Returns the queue from behind its lock, if it has one. No worker has a lane any more. Fails if a worker hangs that has
    /// locked it.
    pub(super) fn unlock(self) -> Result<Option<ReceiveHalf>, Kept> {
        self.locked.map_or(Ok(None), |queue| queue.take())
    }
}
