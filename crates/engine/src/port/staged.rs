//! A wrapper that copies like a switch with a packet pool: it copies every received frame into a private buffer and
//! returns its descriptor, and what is sent is a copy of the copy. For comparison only.

use super::Receive;
use super::around::AroundReceive;
use packet::{Buffers, Burst, BurstStorage, MAX_BURST};

/// Maximum length of a staged frame; longer ones are dropped.
const ROOM: usize = 9216;
/// As many buffers as the pool of such a switch, for the same cache footprint.
const POOL: usize = 4096;

/// Receive half with a private copy.
pub struct Staged {
    inner: Box<dyn Receive>,
    storage: std::cell::RefCell<Box<BurstStorage>>,
    pools: Vec<Buffers>,
    turn: std::cell::Cell<usize>,
}

impl Staged {
    /// Wraps `inner`.
    pub fn new(inner: Box<dyn Receive>) -> Staged {
        let pools = (0..POOL / MAX_BURST).map(|_| Buffers::new(MAX_BURST, ROOM)).collect();
        Staged { inner, storage: Default::default(), pools, turn: Default::default() }
    }
}

impl AroundReceive for Staged {
    fn inner(&self) -> &dyn Receive {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Receive {
        &mut *self.inner
    }

    fn receive_through<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let mut storage = self.storage.borrow_mut();
        let mut borrowed = storage.start();
        if !self.inner.receive(&mut borrowed) {
            return false;
        }
        let turn = (self.turn.get() + 1) % self.pools.len();
        self.turn.set(turn);
        self.pools[turn].release();
        let frames = borrowed.frames();
        for frame in frames.as_slice().iter().filter(|f| f.len() as usize <= ROOM) {
            self.pools[turn].push(burst, |bytes| Some(frames.copy_to(frame, bytes)));
        }
        self.inner.recycle();
        true
    }

    fn recycle_through(&self) {}
}
