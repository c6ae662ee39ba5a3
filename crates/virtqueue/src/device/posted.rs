//! Buffers that a guest posted on its receive queue, read and checked ahead of the frames that will fill them.

use super::chain::Buffer;
use crate::config::MAX_CHAIN;
use std::cell::Cell;

/// One buffer. A chain is one or more of them, the last of which names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub(super) ptr: *mut u8,
    pub(super) len: u32,
    /// Head (split) or buffer id (packed) of the chain, valid in its last buffer.
    pub(super) id: u16,
    /// Ring slots that the chain takes, in its last buffer; zero in all others.
    pub(super) slots: u16,
}

impl Posted {
    #[inline(always)]
    pub(super) fn is_last(&self) -> bool {
        self.slots != 0
    }
}

/// First in, first out. It normally lives in a few cache lines; when a guest posts chains, or more buffers come back than
/// fit there, it takes all the room that it has: for any chain besides a full look-ahead, and for all buffers of the queue.
pub(super) struct PostedQueue {
    entries: Box<[Cell<Posted>]>,
    /// Entries in use, less one: a power of two, less one.
    mask: Cell<u32>,
    /// With so many in it, there is room for any chain that does not make more of it.
    most: Cell<u32>,
    head: Cell<u32>,
    tail: Cell<u32>,
}

/// Entries in use as long as chains are short.
const SMALL: usize = 128;

/// Most buffers of a chain for which [`SMALL`] has room besides a look-ahead.
const SHORT: usize = 32;

impl PostedQueue {
    /// Of a queue of `size` descriptors.
    pub(super) fn new(size: u16) -> Self {
        let none = Posted { ptr: std::ptr::null_mut(), len: 0, id: 0, slots: 0 };
        PostedQueue {
            entries: vec![Cell::new(none); 2 * usize::from(size.max(MAX_CHAIN)).next_power_of_two()].into(),
            mask: Cell::new(SMALL as u32 - 1),
            most: Cell::new((SMALL - SHORT) as u32),
            head: Cell::new(0),
            tail: Cell::new(0),
        }
    }

    /// Buffers in it.
    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.tail.get().wrapping_sub(self.head.get())
    }

    /// A chain of one still fits, and any other after [`PostedQueue::push_chain`] made room for it.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.len() <= self.most.get()
    }

    #[inline(always)]
    fn entry(&self, at: u32) -> &Cell<Posted> {
        &self.entries[(at & self.mask.get()) as usize]
    }

    /// The buffer `ahead` places from the front, which must be less than [`PostedQueue::len`].
    #[inline(always)]
    pub(super) fn peek(&self, ahead: u32) -> Posted {
        self.entry(self.head.get().wrapping_add(ahead)).get()
    }

    #[inline(always)]
    pub(super) fn pop(&self, count: u32) {
        self.head.set(self.head.get().wrapping_add(count));
    }

    #[inline(always)]
    pub(super) fn push(&self, posted: Posted) {
        let tail = self.tail.get();
        self.entry(tail).set(posted);
        self.tail.set(tail.wrapping_add(1));
    }

    /// Puts a chain of one back to the front. No more are put back than were taken.
    pub(super) fn push_front(&self, posted: Posted) {
        if self.len() > self.mask.get() {
            self.grow();
        }
        let head = self.head.get().wrapping_sub(1);
        self.entry(head).set(posted);
        self.head.set(head);
    }

    /// Adds a chain. One without any usable byte still takes its turn, as a buffer of length zero.
    pub(super) fn push_chain(&self, buffers: &[Buffer], good: bool, id: u16, slots: u16) {
        if buffers.len() > 1 && self.mask.get() == SMALL as u32 - 1 {
            self.grow();
        }
        match buffers.split_last() {
            Some((last, before)) if good => {
                for b in before {
                    self.push(Posted { ptr: b.ptr, len: b.len, id: 0, slots: 0 });
                }
                self.push(Posted { ptr: last.ptr, len: last.len, id, slots });
            }
            _ => self.push(Posted { ptr: std::ptr::null_mut(), len: 0, id, slots }),
        }
    }

    /// Uses all entries from now on.
    #[cold]
    fn grow(&self) {
        let mut live = [Posted { ptr: std::ptr::null_mut(), len: 0, id: 0, slots: 0 }; SMALL];
        let count = self.len();
        (0..count).for_each(|i| live[i as usize] = self.peek(i));
        self.mask.set(self.entries.len() as u32 - 1);
        self.most.set(self.entries.len() as u32 - u32::from(MAX_CHAIN));
        self.head.set(0);
        self.tail.set(0);
        live[..count as usize].iter().for_each(|&posted| self.push(posted));
    }
}
