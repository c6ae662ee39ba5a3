//! Buffers that a guest posted on its receive queue, read and checked ahead of the frames that will fill them.

use super::chain::Buffer;
use crate::config::MAX_QUEUE_SIZE;
use std::cell::Cell;

/// One buffer. A chain is one or more of them, the last of which names it.
#[derive(Clone, Copy)]
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

/// First in, first out; room for any chain besides a full look-ahead.
pub(super) struct PostedQueue {
    entries: Box<[Cell<Posted>]>,
    head: Cell<u32>,
    tail: Cell<u32>,
}

const CAPACITY: usize = 2 * MAX_QUEUE_SIZE as usize;
const MASK: u32 = CAPACITY as u32 - 1;

impl PostedQueue {
    pub(super) fn new() -> Self {
        let none = Posted { ptr: std::ptr::null_mut(), len: 0, id: 0, slots: 0 };
        PostedQueue { entries: vec![Cell::new(none); CAPACITY].into(), head: Cell::new(0), tail: Cell::new(0) }
    }

    /// Buffers in it.
    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.tail.get().wrapping_sub(self.head.get())
    }

    /// Any chain still fits.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.len() as usize <= CAPACITY - MAX_QUEUE_SIZE as usize
    }

    /// The buffer `ahead` places from the front, which must be less than [`PostedQueue::len`].
    #[inline(always)]
    pub(super) fn peek(&self, ahead: u32) -> Posted {
        self.entries[(self.head.get().wrapping_add(ahead) & MASK) as usize].get()
    }

    #[inline(always)]
    pub(super) fn pop(&self, count: u32) {
        self.head.set(self.head.get().wrapping_add(count));
    }

    #[inline(always)]
    pub(super) fn push(&self, posted: Posted) {
        let tail = self.tail.get();
        self.entries[(tail & MASK) as usize].set(posted);
        self.tail.set(tail.wrapping_add(1));
    }

    /// Adds a chain. One without any usable byte still takes its turn, as a buffer of length zero.
    pub(super) fn push_chain(&self, buffers: &[Buffer], good: bool, id: u16, slots: u16) {
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
}
