//! The switch's own buffers of a transmit queue, and the chains of them that the device has.

use super::BufferedQueue;
use packet::Segment;
use std::collections::VecDeque;
use virtqueue::NET_HEADER;

/// Buffers of the switch that a frame was copied to: none if it lies in a guest's memory.
#[derive(Clone, Copy, Default)]
pub(super) struct Copied {
    /// The first one. Each knows the next ([`OwnBuffers::next`]).
    first: u16,
    /// Their number, and [`Copied::DESCRIBED`].
    count: u16,
}

impl Copied {
    /// Says that the header in the first buffer describes work.
    pub(super) const DESCRIBED: u16 = 1 << 15;

    /// Returns the chain of `count` buffers from this one on. `mark` is [`Copied::DESCRIBED`] or zero.
    #[inline(always)]
    pub(super) fn new(first: u16, count: u16, mark: u16) -> Copied {
        Copied { first, count: count | mark }
    }

    /// Forgets the buffers; returns them.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Copied {
        Copied { first: self.first, count: std::mem::take(&mut self.count) }
    }

    /// Reports whether there are none.
    #[inline(always)]
    pub(super) fn is_none(self) -> bool {
        self.count == 0
    }
}

/// Buffers that the device does not have, and the order of those that it has.
pub(super) struct OwnBuffers {
    /// Free ones, in the order in which the device returned them.
    free: VecDeque<u16>,
    /// For each buffer the one behind it in its chain.
    next: Box<[u16]>,
}

impl OwnBuffers {
    /// Returns so many buffers, all free.
    pub(super) fn new(count: u16) -> OwnBuffers {
        OwnBuffers { free: (0..count).collect(), next: vec![0; count.into()].into() }
    }

    /// Returns the number of free ones.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.free.len()
    }

    /// Returns the free one that is taken after so many others.
    #[inline(always)]
    pub(super) fn ahead(&self, others: usize) -> Option<u16> {
        self.free.get(others).copied()
    }

    /// Takes a free one.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<u16> {
        self.free.pop_front()
    }

    /// Puts a buffer behind another one of a chain.
    #[inline(always)]
    pub(super) fn link(&mut self, before: u16, index: u16) {
        self.next[usize::from(before)] = index;
    }

    /// Takes back the buffers of a chain that the device has returned.
    #[inline(always)]
    pub(super) fn put<T>(&mut self, end: &BufferedQueue<T>, chain: Copied) {
        if chain.count == 1 { self.free.push_back(chain.first) } else { self.put_all(end, chain) }
    }

    #[cold]
    fn put_all<T>(&mut self, end: &BufferedQueue<T>, Copied { first, count }: Copied) {
        if count & Copied::DESCRIBED != 0 {
            // Headers of free buffers are all zeros: a frame that leaves no work writes none.
            end.write_header(first, &[0; NET_HEADER as usize]);
        }
        let mut index = first;
        for _ in 0..count & !Copied::DESCRIBED {
            self.free.push_back(index);
            index = self.next[usize::from(index)];
        }
    }
}

impl<T> BufferedQueue<T> {
    /// Writes the first bytes of the header in a buffer.
    pub(super) fn write_header(&self, index: u16, header: &[u8]) {
        self.arena.gather(self.buffer(index), std::iter::once(Segment::from(header)));
    }
}
