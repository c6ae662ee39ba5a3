//! Reception from a tap.

use crate::port::interface::readable;
use crate::port::{HoldBursts, LifeCycle, RxQueue, Wait};
use netdev::TapQueue;
use packet::{Buffers, Burst, MAX_BURST, MIN_FRAME, MappedMemory};
use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Buffer size for a frame read from a tap: a jumbo frame and its tag.
const TAP_ROOM: usize = 9216 + 18;

/// Bursts that a tap has buffers for if several workers share its queue.
const BURSTS: usize = 32;

/// Receive half of a tap.
pub struct TapReceive {
    queue: Arc<TapQueue>,
    /// Buffers of one burst each.
    buffers: Vec<Buffers>,
    /// Index of those of the present burst; `None` if all are held.
    present: Cell<Option<u16>>,
    /// Indices of those that are neither in use nor held.
    spare: RefCell<Vec<u16>>,
}

impl TapReceive {
    /// Returns a half that reads from `queue`.
    pub fn new(queue: Arc<TapQueue>) -> TapReceive {
        let buffers = vec![Buffers::new(MAX_BURST, TAP_ROOM)];
        TapReceive { queue, buffers, present: Cell::new(Some(0)), spare: RefCell::default() }
    }

    /// Returns the buffers of the present burst.
    fn present(&self) -> Option<&Buffers> {
        if self.present.get().is_none() {
            self.present.set(self.spare.borrow_mut().pop());
        }
        self.present.get().map(|index| &self.buffers[usize::from(index)])
    }
}

impl RxQueue for TapReceive {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let Some(buffers) = self.present() else { return false };
        while burst.room() > 0 && buffers.push(burst, |bytes| self.queue.read(bytes).ok().flatten()) {}
        burst.retain(|_, frame| frame.len() >= MIN_FRAME);
        !burst.is_empty()
    }

    fn recycle(&self) {
        self.present().into_iter().for_each(Buffers::release);
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.queue.as_fd())
    }

    fn arm(&self) -> Wait {
        readable(self.queue.as_fd())
    }

    fn holds(&self) -> Option<&dyn HoldBursts> {
        Some(self)
    }

    fn life_cycle(&mut self) -> Option<&mut dyn LifeCycle> {
        Some(self)
    }
}

impl HoldBursts for TapReceive {
    fn memories(&self) -> Vec<Arc<dyn MappedMemory>> {
        self.buffers.iter().map(Buffers::memory).collect()
    }

    fn buffers(&self) -> usize {
        self.buffers.len() * MAX_BURST
    }

    fn hold(&self, held: &mut Vec<u16>) {
        held.extend(self.present.take());
    }

    fn give_back(&self, held: &[u16]) {
        held.iter().for_each(|&index| self.buffers[usize::from(index)].release());
        self.spare.borrow_mut().extend_from_slice(held);
    }
}

impl LifeCycle for TapReceive {
    fn share(&mut self, is_shared: bool) {
        let bursts = if is_shared { BURSTS } else { 1 };
        self.buffers.resize_with(bursts, || Buffers::new(MAX_BURST, TAP_ROOM));
        self.present.set(Some(0));
        *self.spare.get_mut() = (1..bursts as u16).rev().collect();
    }
}
