//! Copies like a switch with a packet pool: every received frame into a private buffer, so that what is sent is a copy of
//! the copy. For comparison only.

use super::ingress::{IngressStage, Next};
use packet::{Buffers, Burst, BurstStorage, MAX_BURST};
use std::cell::{Cell, RefCell};

/// Maximum length of a staged frame; longer ones are dropped.
const ROOM: usize = 9216;
/// As many buffers as the pool of such a switch, for the same cache footprint.
const POOL: usize = 4096;

/// Private copies of the frames of a queue.
pub(crate) struct Staged {
    storage: RefCell<Box<BurstStorage>>,
    pools: Vec<Buffers>,
    turn: Cell<usize>,
}

impl Staged {
    /// Returns a stage with a pool of its own.
    pub(crate) fn new() -> Staged {
        let pools = (0..POOL / MAX_BURST).map(|_| Buffers::new(MAX_BURST, ROOM)).collect();
        Staged { storage: RefCell::default(), pools, turn: Cell::default() }
    }
}

impl IngressStage for Staged {
    fn process(&self, burst: &mut Burst<'_, '_>, next: &mut Next<'_>) {
        let turn = (self.turn.get() + 1) % self.pools.len();
        self.turn.set(turn);
        let pool = &self.pools[turn];
        pool.release();
        let mut storage = self.storage.borrow_mut();
        let mut copies = storage.start();
        let frames = burst.frames();
        for frame in frames.as_slice().iter().filter(|f| f.len() as usize <= ROOM) {
            pool.push(&mut copies, |bytes| Some(frames.copy_to(frame, bytes)));
        }
        next.pass(&mut copies);
    }

    fn needs_private_frames(&self) -> bool {
        true
    }
}
