//! The worker's side: claims batches, and completes them.

use crate::ring::{Key, Ring};
use crate::sync::Arc;
use std::ops::{Deref, DerefMut};

/// A thread that processes batches. It claims one at a time.
///
/// A worker may end at any time; the parent does not learn of it, and needs not to.
pub struct Worker<B> {
    ring: Arc<Ring<B>>,
}

/// A batch that a worker has claimed, with exclusive access.
///
/// If it is dropped, and not completed, its frames may not have been processed: the parent gets it as
/// [`Outcome::Abandoned`](crate::Outcome). If it is forgotten ([`std::mem::forget`]), the parent never gets it back, and has
/// one batch less.
///
/// Threads may share a claim only if they may share the batch:
///
/// ```compile_fail,E0277
/// fn share<T: Sync>() {}
/// share::<roles::Claim<'_, std::cell::Cell<u8>>>();
/// ```
#[must_use = "a claim that is dropped is abandoned"]
pub struct Claim<'a, B> {
    ring: &'a Ring<B>,
    key: Key<B>,
    sequence: u64,
    is_complete: bool,
}

impl<B> Worker<B> {
    pub(crate) fn new(ring: Arc<Ring<B>>) -> Self {
        Worker { ring }
    }

    /// Claims the oldest unclaimed batch, if there is one. A call that finds none does not write.
    #[inline]
    pub fn claim(&mut self) -> Option<Claim<'_, B>> {
        let (sequence, key) = self.ring.claim()?;
        Some(Claim { ring: &self.ring, key, sequence, is_complete: false })
    }

    /// Reports whether there is a batch to claim. Another worker may claim it first.
    pub fn has_work(&self) -> bool {
        self.ring.has_unclaimed()
    }
}

impl<B> Claim<'_, B> {
    /// Returns the batch's number, in the order of publication and from 0: to bring frames into that order again.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Reports whether the parent went on without this batch. It may do so right after the answer, too.
    #[inline]
    pub fn is_left_behind(&self) -> bool {
        self.ring.is_left_behind(&self.key)
    }

    /// Gives the batch back to the parent, with its frames processed.
    #[inline]
    pub fn complete(mut self) {
        self.is_complete = true;
    }
}

impl<B> Deref for Claim<'_, B> {
    type Target = B;

    #[inline(always)]
    fn deref(&self) -> &B {
        self.ring.get(&self.key)
    }
}

impl<B> DerefMut for Claim<'_, B> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut B {
        self.ring.get_mut(&mut self.key)
    }
}

impl<B> Drop for Claim<'_, B> {
    #[inline(always)]
    fn drop(&mut self) {
        self.ring.give_back(self.key.take(), self.is_complete);
    }
}
