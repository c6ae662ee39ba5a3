//! Batches, and the right to access each: the only module that argues why access is exclusive.
//!
//! The thread that holds a batch's [`Key`] may access it. There is one key for each batch:
//!
//! 1. The parent has all keys at first.
//! 2. [`Ring::publish`] takes a key, and writes an entry with a number that no other entry ever has.
//! 3. [`Ring::claim`] returns the key of the entry with number `n` to the worker that moves the cursor from `n` to `n + 1`.
//!    The cursor only grows: one worker does that.
//! 4. [`Ring::give_back`] takes the key from the worker, and marks the batch as given back.
//! 5. [`Ring::take_back`] removes the mark, and returns the key to the parent.
//!
//! Steps 2 and 4 release what was written to the batch, and steps 3 and 5 acquire it. The cursor carries no data: all that a
//! worker reads from the parent comes by the entry, so that its accesses are relaxed.

use crate::sync::{AtomicBool, AtomicU8, AtomicU64, Ordering, UnsafeCell};
use std::marker::PhantomData;

#[cfg(all(test, loom))]
mod model;

/// Outcome of a batch that comes back to the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The worker completed it.
    Complete,
    /// The worker dropped it without completing it, in time or late: it panicked.
    Abandoned,
    /// The worker completed it after the parent had left it behind.
    Late,
}

/// The right to access one batch. It is as good as the batch itself, so its holder is `Send` and `Sync` only if the batch is.
pub(crate) struct Key<B>(u16, PhantomData<B>);

impl<B> Key<B> {
    fn new(index: u16) -> Self {
        Key(index, PhantomData)
    }

    /// Takes the key, and leaves one that opens nothing.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Key::new(NO_BATCH))
    }
}

/// The index that no batch has.
const NO_BATCH: u16 = u16::MAX;

/// On cache lines of its own. Processors fetch pairs of lines of 64 bytes.
#[repr(align(128))]
struct Line<T>(T);

/// Entries on a line.
const ENTRIES: usize = 16;

/// The memory that a parent and its workers share.
pub(crate) struct Ring<B> {
    /// Number of batches ever claimed: the number of the entry that is claimed next.
    claimed: Line<AtomicU64>,
    /// The batches that are published: number `n` is at `n & mask`. An entry has the batch's index in its lowest 16 bits,
    /// and 48 bits of `n` above. A room of entries is written again only after the batch there was claimed.
    entries: Box<[Line<[AtomicU64; ENTRIES]>]>,
    mask: usize,
    batches: Box<[Line<Batch<B>>]>,
}

/// A batch, with its state on the same line: a worker that completes it has the line, and the parent that releases it
/// accesses both.
#[repr(C)]
struct Batch<B> {
    /// Written by the worker that has the key, and by the parent when it takes the key back.
    given_back: AtomicU8,
    /// Written by the parent: it went on without this batch.
    left_behind: AtomicBool,
    content: UnsafeCell<B>,
}

/// Values of [`Batch::given_back`].
const NOT_YET: u8 = 0;
const COMPLETE: u8 = 1;
const ABANDONED: u8 = 2;

// SAFETY: The content of a batch is accessed by its key only, and there is one key at a time (see above): so `&Ring` on
// several threads moves batches between them, for which `Send` is enough, and never shares one. A key may be shared by
// threads only if batches may.
unsafe impl<B: Send> Sync for Ring<B> {}

impl<B> Ring<B> {
    /// Returns a ring with `room` entries, a power of two, its batches, and their keys.
    ///
    /// # Panics
    /// If an index of a batch has more than 16 bits.
    pub(crate) fn new(room: usize, batches: usize, mut batch: impl FnMut() -> B) -> (Self, Vec<Key<B>>) {
        assert!(batches <= usize::from(NO_BATCH), "{batches} batches are more than {NO_BATCH}");
        debug_assert!(room.is_power_of_two());
        // No batch has the index in this entry, so it is never claimed.
        let unpublished = || AtomicU64::new(NO_BATCH.into());
        let line = |_| Line(std::array::from_fn(|_| unpublished()));
        let batch = |_| {
            let content = UnsafeCell::new(batch());
            Line(Batch { given_back: AtomicU8::new(NOT_YET), left_behind: AtomicBool::new(false), content })
        };
        let ring = Ring {
            claimed: Line(AtomicU64::new(0)),
            entries: (0..room.div_ceil(ENTRIES)).map(line).collect(),
            mask: room - 1,
            batches: (0..batches).map(batch).collect(),
        };
        (ring, (0..batches as u16).map(Key::new).collect())
    }

    #[inline(always)]
    fn entry(&self, number: u64) -> &AtomicU64 {
        let at = number as usize & self.mask;
        &self.entries[at / ENTRIES].0[at % ENTRIES]
    }

    #[inline(always)]
    fn batch(&self, index: u16) -> &Batch<B> {
        &self.batches[usize::from(index)].0
    }

    /// Gives access to the batch of `key`, which must be of this ring.
    #[inline(always)]
    pub(crate) fn get<'a>(&'a self, key: &'a Key<B>) -> &'a B {
        // SAFETY: The key is borrowed for as long as the batch is, so nobody changes it meanwhile. All accesses before are
        // over, and visible: the key came here by steps 2 to 5. A parent, and a claim, have one ring and keys of no other.
        self.batch(key.0).content.with(|batch| unsafe { &*batch })
    }

    /// Gives exclusive access to the batch of `key`, which must be of this ring.
    #[inline(always)]
    pub(crate) fn get_mut<'a>(&'a self, key: &'a mut Key<B>) -> &'a mut B {
        // SAFETY: As in `get`; the key is borrowed exclusively, so nobody reads the batch meanwhile, either.
        self.batch(key.0).content.with_mut(|batch| unsafe { &mut *batch })
    }

    /// Publishes a batch, and returns its index. Only the parent calls this, with one number after the other, and only once
    /// the batch that had the room of this entry is claimed.
    #[inline(always)]
    pub(crate) fn publish(&self, number: u64, key: Key<B>) -> u16 {
        // Released to the worker that claims it: the batch.
        self.entry(number).store(number << 16 | u64::from(key.0), Ordering::Release);
        key.0
    }

    /// Claims the oldest batch that is published and not claimed; returns its number, and its key. There was none at some
    /// moment of the call if this returns `None`, or others have meanwhile claimed enough batches for the entry to be used again.
    ///
    /// It tries again only if another worker succeeded.
    #[inline(always)]
    pub(crate) fn claim(&self) -> Option<(u64, Key<B>)> {
        let mut number = self.claimed.0.load(Ordering::Relaxed);
        loop {
            // The index, if the entry has this number; otherwise more than any index.
            let index = self.entry(number).load(Ordering::Acquire).wrapping_sub(number << 16);
            if index >= self.batches.len() as u64 {
                return None;
            }
            match self.claimed.0.compare_exchange(number, number + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some((number, Key::new(index as u16))),
                Err(now) => number = now,
            }
        }
    }

    /// Reports whether a batch is published and not claimed.
    pub(crate) fn has_unclaimed(&self) -> bool {
        let number = self.claimed.0.load(Ordering::Relaxed);
        self.entry(number).load(Ordering::Relaxed).wrapping_sub(number << 16) < self.batches.len() as u64
    }

    /// Gives a batch back to the parent.
    #[inline(always)]
    pub(crate) fn give_back(&self, key: Key<B>, is_complete: bool) {
        // Released to the parent: the batch, and all reads of it.
        self.batch(key.0).given_back.store(if is_complete { COMPLETE } else { ABANDONED }, Ordering::Release);
    }

    /// Takes a batch back if it was given back. Only the parent calls this.
    #[inline(always)]
    pub(crate) fn take_back(&self, index: u16) -> Option<(Key<B>, Outcome)> {
        let batch = self.batch(index);
        let outcome = match batch.given_back.load(Ordering::Acquire) {
            NOT_YET => return None,
            ABANDONED => Outcome::Abandoned,
            _ if batch.left_behind.load(Ordering::Relaxed) => Outcome::Late,
            _ => Outcome::Complete,
        };
        // No worker accesses the batch now; the worker that claims it next sees both stores.
        batch.given_back.store(NOT_YET, Ordering::Relaxed);
        batch.left_behind.store(false, Ordering::Relaxed);
        Some((Key::new(index), outcome))
    }

    /// Reports whether batch `index`, published with this number, is claimed and not given back. Only the parent asks.
    #[inline]
    pub(crate) fn is_held(&self, index: u16, number: u64) -> bool {
        self.claimed.0.load(Ordering::Relaxed) > number
            && self.batch(index).given_back.load(Ordering::Relaxed) == NOT_YET
    }

    /// Tells the worker that holds batch `index` that the parent went on without it.
    pub(crate) fn leave_behind(&self, index: u16) {
        self.batch(index).left_behind.store(true, Ordering::Relaxed);
    }

    /// Reports whether the parent went on without the batch of `key`.
    #[inline]
    pub(crate) fn is_left_behind(&self, key: &Key<B>) -> bool {
        self.batch(key.0).left_behind.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::mem::{align_of, size_of};

    fn address<T>(of: &T) -> usize {
        std::ptr::from_ref(of).addr()
    }

    #[test]
    fn nothing_that_two_threads_write_shares_a_line() {
        let (ring, _) = Ring::new(64, 66, || 0u8);
        let batches: Vec<_> = ring.batches.iter().map(address).collect();
        assert!(batches.iter().all(|batch| batch % 128 == 0));
        assert!(batches.windows(2).all(|pair| pair[1] - pair[0] == 128), "the state of a small batch is on its line");
        let entries: Vec<_> = ring.entries.iter().map(address).collect();
        assert!(entries.len() == 4 && entries.iter().all(|line| line % 128 == 0));
        assert_eq!(size_of::<Batch<[u64; 64]>>(), 64 * 8 + 8, "the state is in front of a large batch");
        assert_eq!(std::mem::offset_of!(Batch<[u64; 64]>, given_back), 0);
        assert_eq!(size_of::<Line<[AtomicU64; ENTRIES]>>(), 128);
        assert_eq!(align_of::<Ring<u8>>(), 128);
        let cursor = address(&ring.claimed) / 128;
        let read_only = [address(&ring.entries), address(&ring.batches), address(&ring.mask)];
        assert!(read_only.iter().all(|field| field / 128 != cursor), "the cursor is alone");
    }

    #[test]
    fn an_entry_of_any_size_has_its_number() {
        // Around the wrap of the 48 bits that an entry has of a number.
        let (ring, keys) = Ring::new(2, 4, || 0u8);
        let first = (1 << 48) - 2;
        ring.claimed.0.store(first, Ordering::Relaxed);
        assert!(ring.claim().is_none());
        for (number, key) in (first..).zip(keys) {
            let index = ring.publish(number, key);
            let (claimed, key) = ring.claim().unwrap();
            assert_eq!((claimed, key.0), (number, index));
            assert!(ring.claim().is_none(), "the entries of other numbers are not claimed");
        }
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_key_that_was_taken_opens_nothing() {
        let most = if cfg!(miri) { 100 } else { usize::from(NO_BATCH) };
        let (ring, mut keys) = Ring::new(1, most, || 0u8);
        let _taken = keys[0].take();
        ring.get(&keys[0]);
    }
}
