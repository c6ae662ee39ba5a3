//! The parent's side: fills batches, publishes them, and releases them in order.

use crate::ring::{Key, Outcome, Ring};
use crate::sync::Arc;
use std::ops::{Deref, DerefMut};

#[cfg(all(test, loom))]
mod model;

/// The one thread that talks to the hardware. No other thread accesses its state, so it needs no atomics.
pub struct Parent<B> {
    ring: Arc<Ring<B>>,
    /// Keys of the batches that are free. The one that was released last is filled next: it is in the cache.
    free: Vec<Key<B>>,
    /// The batches from `front` to `next`, at their numbers modulo the length, a power of two.
    order: Box<[u16]>,
    /// Number of the oldest batch that is neither released nor left behind.
    front: u64,
    /// Number of the batch that is published next.
    next: u64,
    /// Batches left behind that have not come back.
    left_behind: Vec<u16>,
}

/// A free batch, to be filled. If it is dropped without being published, it keeps its content.
pub struct Filling<'a, B> {
    parent: &'a mut Parent<B>,
}

impl<B> Parent<B> {
    pub(crate) fn new(ring: Arc<Ring<B>>, free: Vec<Key<B>>, room: usize) -> Self {
        let left_behind = Vec::with_capacity(free.len());
        Parent { ring, free, order: vec![0; room].into(), front: 0, next: 0, left_behind }
    }

    #[inline(always)]
    fn place(&self, number: u64) -> usize {
        number as usize & (self.order.len() - 1)
    }

    /// Returns a batch to fill. If there is none, all are in use until [`Parent::release`] frees one: leave frames to the
    /// hardware.
    #[inline]
    pub fn free(&mut self) -> Option<Filling<'_, B>> {
        // The entry that is written again belongs to a batch before the front: that was claimed.
        let is_full = self.next - self.front == self.order.len() as u64;
        if is_full || self.free.is_empty() { None } else { Some(Filling { parent: self }) }
    }

    /// Releases all batches at the front that workers gave back, in order; then those left behind that have come back.
    /// Calls `visit` with each, which is free when it returns. Returns their number.
    #[inline]
    pub fn release(&mut self, mut visit: impl FnMut(&mut B, Outcome)) -> usize {
        let mut released = 0;
        while self.front < self.next {
            let Some((key, outcome)) = self.ring.take_back(self.order[self.place(self.front)]) else { break };
            self.front += 1;
            released += 1;
            visit(self.ring.get_mut(self.free.push_mut(key)), outcome);
        }
        let mut at = 0;
        while at < self.left_behind.len() {
            let Some((key, outcome)) = self.ring.take_back(self.left_behind[at]) else {
                at += 1;
                continue;
            };
            self.left_behind.swap_remove(at);
            released += 1;
            visit(self.ring.get_mut(self.free.push_mut(key)), outcome);
        }
        released
    }

    /// Returns the number of the batch at the front if a worker holds it: all later ones wait for it.
    ///
    /// This reads the cursor that workers claim on: ask from time to time, and not in every round.
    #[inline]
    pub fn oldest(&self) -> Option<u64> {
        let is_held = self.front < self.next && self.ring.is_held(self.order[self.place(self.front)], self.front);
        is_held.then_some(self.front)
    }

    /// Goes on without the batch at the front if a worker holds it; reports whether it did. [`Parent::release`] frees the
    /// batch once it comes back.
    pub fn leave_behind(&mut self) -> bool {
        let Some(number) = self.oldest() else { return false };
        let index = self.order[self.place(number)];
        self.ring.leave_behind(index);
        self.left_behind.push(index);
        self.front += 1;
        true
    }

    /// Returns the number of batches left behind that have not come back.
    pub fn left_behind(&self) -> usize {
        self.left_behind.len()
    }

    /// Returns the number of batches that are published and not released, with those left behind. If it is 0, no worker
    /// holds a batch.
    pub fn outstanding(&self) -> usize {
        (self.next - self.front) as usize + self.left_behind.len()
    }
}

impl<B> Filling<'_, B> {
    /// Lets a worker claim the batch.
    #[inline]
    pub fn publish(self) {
        let parent = self.parent;
        let key = parent.free.pop().expect("it was there when this was made");
        let place = parent.place(parent.next);
        parent.order[place] = parent.ring.publish(parent.next, key);
        parent.next += 1;
    }
}

impl<B> Deref for Filling<'_, B> {
    type Target = B;

    #[inline(always)]
    fn deref(&self) -> &B {
        self.parent.ring.get(self.parent.free.last().expect("it was there when this was made"))
    }
}

impl<B> DerefMut for Filling<'_, B> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut B {
        let Parent { ring, free, .. } = &mut *self.parent;
        ring.get_mut(free.last_mut().expect("it was there when this was made"))
    }
}
