//! Static role assignment: many cores on one receive queue, of which one alone talks to the hardware.
//!
//! The *parent* fills batches with received frames and publishes them. *Workers* claim batches by themselves, and complete
//! them in any order; nobody hands them out. The parent releases batches in the order in which it published them, and refills
//! the hardware's queue with their buffers.
//!
//! ```text
//!     front: released next           cursor: claimed next  next: published next
//!    ▼                             ▼                   ▼
//!  ┌────┬────┬────┬────┬────┬────┬────┬────┬────┬────┬────┬────┬────┬────┬────┬────┐
//!  │ 20 │ 21 │ 22 │ 23 │ 24 │ 25 │ 26 │ 27 │ 28 │ 29 │    │    │    │    │    │    │
//!  │done│done│    │done│    │done│    │    │    │    │    │    │    │    │    │    │
//!  └────┴────┴────┴────┴────┴────┴────┴────┴────┴────┴────┴────┴────┴────┴────┴────┘
//!   └─ claimed: workers complete┘ └─ published: any ─┘ └─ free: the parent fills ─┘
//!      them in any order             worker may claim     and publishes them
//!                                    them
//! ```
//!
//! Here, the parent can release 20 and 21, and then waits for 22. A worker claims 26 by one compare-and-swap of the cursor;
//! the parent publishes 30 by one store.
//!
//! A worker that stalls stops the front. The parent can leave its batch behind and continue: there is a spare batch for each
//! worker. A batch left behind comes back when its worker completes it, or never: then one batch is withheld, and nothing
//! else.
//!
//! After [`share`], nothing allocates, locks, waits or calls the kernel, and nobody reads a clock: the caller decides when a
//! worker has stalled.
//!
//! # Cost
//!
//! | step | accesses to lines that others write |
//! |---|---|
//! | publish | a store to the entry; 16 entries are on a line |
//! | claim | the cursor, read and then swapped; the entry, read |
//! | complete | a store to the batch's line, which the worker already has if it read the batch |
//! | release | the batch's line, read and written; the parent writes it again when it fills the batch |
//! | idle claim | two loads of lines that nobody changes meanwhile |
//!
//! Workers claim on one cursor and not on the state of each batch. With a compare-and-swap of the state, a worker has to find
//! the next batch that is not claimed: it reads the line of each batch that others have claimed since, while they write to
//! it. That is a miss for each of the other workers. The cursor is one line that moves from worker to worker once a batch,
//! and it gives batches out in order, so that none waits behind a later one.
//!
//! # Ending
//!
//! Once [`Parent::outstanding`] is 0, no worker holds a batch. To get there, the parent publishes no more and releases until
//! then; it may claim batches that others do not, with a worker of its own. Worker and parent may be dropped at any time:
//! batches live as long as one of them.
//!
//! # Example
//!
//! ```
//! use roles::{Outcome, share};
//!
//! let (mut parent, mut workers) = share(4, 1, Vec::new);
//! let mut batch = parent.free().unwrap();
//! batch.push("frame");
//! batch.publish();
//!
//! let claim = workers[0].claim().unwrap();
//! assert_eq!((claim.sequence(), &claim[..]), (0, &["frame"][..]));
//! claim.complete();
//!
//! let released = parent.release(|batch, outcome| {
//!     assert_eq!(outcome, Outcome::Complete);
//!     batch.clear();
//! });
//! assert_eq!((released, parent.outstanding()), (1, 0));
//! ```
#![deny(unsafe_code)]
#![warn(unreachable_pub)]

mod parent;
#[allow(unsafe_code)]
mod ring;
mod sync;
mod worker;

pub use parent::{Filling, Parent};
pub use ring::Outcome;
pub use worker::{Claim, Worker};

use ring::Ring;
use sync::Arc;

/// Returns the parent and the workers of one receive queue.
///
/// At most `room` batches are published and not released, rounded up to a power of two; `batch` makes these, and one more
/// for each worker, which takes the place of a batch that is left behind.
///
/// # Panics
/// If `room` is 0, or if that makes 65,536 batches or more.
pub fn share<B: Send>(room: usize, workers: usize, batch: impl FnMut() -> B) -> (Parent<B>, Vec<Worker<B>>) {
    assert!(room > 0, "a queue needs room for at least one batch");
    let room = room.next_power_of_two();
    let (ring, keys) = Ring::new(room, room + workers, batch);
    let ring = Arc::new(ring);
    let workers = (0..workers).map(|_| Worker::new(ring.clone())).collect();
    (Parent::new(ring, keys, room), workers)
}
