//! Sharing a receive queue among workers.
//!
//! With *static roles* (crate `roles`), the queue's [`Parent`] alone talks to the device: it receives, publishes batches, and
//! refills. Each of the other workers has a [`Lane`], through which it claims batches by itself. A lane looks like a queue of
//! its own to the rest of the switch: it has its own stages, counters and place in the layout.
//!
//! ```text
//!              ┌──────────── parent's worker ───────────┐
//!   device ──► receive ──► publish          release ──► send what lanes handed over ──► outputs
//!                             │                ▲        give buffers back ──► device
//!                             ▼                │
//!                  lane: claim ──► stages ──► look up ──► complete
//!                                                    └──► send to own outputs
//! ```
//!
//! A lane sends by itself to queues that it may send to by the layout. All other frames it hands over with their batch: the
//! parent sends them when it releases the batch, in the order in which it received them. So no two workers of a queue meet in
//! a lock, a mapped guest's ring has one user, and if lanes hand over everything, all frames keep their order.
//!
//! With a *lock* ([`locked`]), workers take turns at the queue, and there is no parent. That is the usual way, and there for
//! comparison.

mod batch;
mod lane;
mod locked;
mod parent;
mod prepare;
mod terms;
#[cfg(test)]
mod tests;

pub(crate) use lane::Lane;
pub(crate) use locked::LockedQueue;
pub(crate) use parent::Parent;
pub(crate) use terms::Terms;

use crate::port::ReceiveHalf;
use batch::Batch;
use handover::Alarm;
use lane::StaticLane;
use packet::{LeasedFrames, MAX_BURST, MappedMemory};
use prepare::prepare;
use std::sync::Arc;

/// Maximum number of workers of a queue.
pub const MOST_WORKERS: usize = 16;

/// Batches for each lane: one that it processes, and some that wait for it, or for an earlier batch.
const BATCHES: usize = 4;

/// Shares a queue by static roles: returns its parent, and as many lanes as there are alarms. Returns the half if its frames
/// cannot be held.
pub(crate) fn assign(mut half: ReceiveHalf, terms: Terms) -> Result<(Parent, Vec<Lane>), ReceiveHalf> {
    prepare(&mut half, true);
    let Some(holds) = half.holds() else { return Err(half) };
    let memories: Arc<[Arc<dyn MappedMemory>]> = holds.memories().into();
    let lanes = terms.alarms.len();
    // At most half of the queue's buffers are held, so that the device has the others.
    let room = (holds.buffers() / (2 * MAX_BURST)).clamp(1, BATCHES * lanes);
    let room = 1 << room.ilog2();
    let (batches, workers) = roles::share(room, lanes, || Batch::new(&memories, terms.outputs));
    let lane = |(worker, alarm): (_, &Arc<Alarm>)| {
        let handed = (0..terms.outputs).map(|_| LeasedFrames::new(memories.clone())).collect();
        Lane::StaticRole(StaticLane::new(worker, alarm.clone(), handed))
    };
    let lanes = workers.into_iter().zip(&terms.alarms).map(lane).collect();
    Ok((Parent::new(half, batches, terms), lanes))
}
