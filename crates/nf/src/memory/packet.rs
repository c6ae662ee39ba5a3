//! Packets: bytes in buffers of a pool, owned.

use super::{Buffers, Inside};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use virtqueue::NET_HEADER;
use virtqueue::memory::Arena;

/// Bytes in front of a new or received packet that [`Packet::prepend`] can take: the headers of an aggregate fit, and whole
/// cache lines keep packets on lines of their own.
pub const HEADROOM: usize = 128;

/// Where in a buffer a packet begins: behind the headroom and the virtio header.
const START: u16 = HEADROOM as u16 + NET_HEADER as u16;

/// Buffers that are nobody's at the moment.
#[derive(Debug)]
pub(crate) struct Pool {
    buffers: Buffers,
    free: RefCell<Vec<u16>>,
}

impl Pool {
    /// Sets aside `count` buffers for packets of `size` bytes each; `None` if the arena is too small.
    pub(crate) fn allocate(arena: &mut Arena, count: u16, size: usize) -> Option<Rc<Pool>> {
        let buffers = Buffers::allocate(arena, count, usize::from(START) + size)?;
        // The one freed last is taken first: its lines are still in the cache.
        Some(Rc::new(Pool { buffers, free: RefCell::new((0..count).rev().collect()) }))
    }

    /// Bytes of arena that `count` buffers for packets of `size` bytes take.
    pub(crate) fn footprint(count: u16, size: usize) -> u64 {
        Buffers::footprint(count, usize::from(START) + size)
    }

    /// A buffer, all behind the headroom, with whatever was in it. `None` if all are in use.
    #[inline]
    pub(crate) fn take(self: &Rc<Pool>) -> Option<Segment> {
        let index = self.free.borrow_mut().pop()?;
        let len = self.buffers.size() - HEADROOM;
        Some(Segment { pool: self.clone(), index, start: HEADROOM as u16, len: len as u16 })
    }

    /// Bytes of the longest packet that fits into one buffer behind the headroom.
    pub(crate) fn longest(&self) -> usize {
        self.buffers.size() - usize::from(START)
    }

    /// How many buffers are nobody's.
    pub(crate) fn free(&self) -> usize {
        self.free.borrow().len()
    }
}

/// A run of bytes in one buffer, and with it the buffer, which goes back to the pool in the end.
#[derive(Debug)]
pub(crate) struct Segment {
    pool: Rc<Pool>,
    index: u16,
    start: u16,
    len: u16,
}

impl Segment {
    /// Guest address of the first byte.
    #[inline]
    pub(crate) fn addr(&self) -> u64 {
        self.pool.buffers.addr(self.index) + u64::from(self.start)
    }

    /// Length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> u16 {
        self.len
    }

    /// Moves the first byte by `start` within the buffer, and sets the length. `None` if that is outside.
    #[inline]
    pub(crate) fn set(&mut self, start: i32, len: usize) -> Option<()> {
        let start = i32::from(self.start) + start;
        if start < 0 || start as usize + len > self.pool.buffers.size() {
            return None;
        }
        (self.start, self.len) = (start as u16, len as u16);
        Some(())
    }

    /// The segment lies in a buffer of `pool`.
    #[inline]
    pub(crate) fn is_from(&self, pool: &Rc<Pool>) -> bool {
        Rc::ptr_eq(&self.pool, pool)
    }

    #[inline]
    fn range(&self) -> std::ops::Range<usize> {
        usize::from(self.start)..usize::from(self.start) + usize::from(self.len)
    }
}

impl Deref for Segment {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: there is one segment per taken index, this one, and nothing else refers to the buffer's bytes but
        // through it. Segments that the device has are locked away in a queue, which never asks for their bytes.
        let bytes = unsafe { self.pool.buffers.bytes(self.index) };
        &bytes[self.range()]
    }
}

impl DerefMut for Segment {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let range = self.range();
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        let bytes = unsafe { self.pool.buffers.bytes_mut(self.index) };
        &mut bytes[range]
    }
}

impl Drop for Segment {
    #[inline]
    fn drop(&mut self) {
        self.pool.free.borrow_mut().push(self.index);
    }
}

/// An Ethernet frame that is ours: received, or made by [`crate::Port::alloc`]. Dropping it frees it.
///
/// It dereferences to the bytes of its first buffer. A frame that the device spread over several buffers (mergeable
/// receive buffers) stays spread: headers are in the first one, [`Packet::chunks`] gives all, and it can be sent on
/// as it is.
#[derive(Debug)]
pub struct Packet {
    head: Segment,
    /// Further buffers, rarely any: an empty vector owns no memory.
    rest: Vec<Segment>,
    queue: u16,
    /// The packets in it, if it is an aggregate that was left whole.
    inside: Option<Inside>,
}

impl Packet {
    pub(crate) fn new(head: Segment, queue: u16) -> Packet {
        Packet { head, rest: Vec::new(), queue, inside: None }
    }

    /// A packet of `len` bytes with whatever was in its buffer; `None` if it does not fit into one, or if all are in use.
    #[inline]
    pub(crate) fn allocate(pool: &Rc<Pool>, len: usize) -> Option<Packet> {
        let mut head = pool.take()?;
        head.set(NET_HEADER as i32, len)?;
        Some(Packet::new(head, 0))
    }

    /// The packets in it, if it is an aggregate that was left whole.
    #[inline]
    pub(crate) fn inside(&self) -> Option<Inside> {
        self.inside
    }

    /// Leaves an aggregate whole that was checked; false if it is spread over several buffers.
    #[inline]
    pub(crate) fn mark(&mut self, inside: Inside) -> bool {
        self.inside = self.rest.is_empty().then_some(inside);
        self.inside.is_some()
    }

    /// Keeps the `size` bytes from `at` on, or as many as will be written there, behind `front` bytes with whatever was
    /// there. `None`, and nothing has changed, if they don't fit into its buffer, or if it has several.
    #[inline]
    pub(crate) fn reframe(&mut self, at: usize, front: usize, size: usize) -> Option<()> {
        let start = (usize::from(self.head.start) + at).checked_sub(front)?;
        if start < NET_HEADER as usize || !self.rest.is_empty() {
            return None;
        }
        self.head.set(start as i32 - i32::from(self.head.start), front + size)?;
        self.inside = None;
        Some(())
    }

    pub(crate) fn append(&mut self, segment: Segment) {
        self.rest.push(segment);
    }

    pub(crate) fn segments(&self) -> impl ExactSizeIterator<Item = &Segment> {
        Chain { head: Some(&self.head), rest: self.rest.iter() }
    }

    pub(crate) fn head_mut(&mut self) -> &mut Segment {
        &mut self.head
    }

    /// The queue pair that it came from, and goes to if the port it is sent to has as many.
    pub fn queue(&self) -> u16 {
        self.queue
    }

    /// Chooses the queue pair to send it to.
    pub fn set_queue(&mut self, queue: u16) {
        self.queue = queue;
    }

    /// Bytes of the whole frame.
    pub fn total_len(&self) -> usize {
        self.segments().map(|s| usize::from(s.len)).sum()
    }

    /// The frame's bytes, buffer by buffer.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.segments().map(|s| &**s)
    }

    /// The same, to be changed.
    pub fn chunks_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        std::iter::once(&mut *self.head).chain(self.rest.iter_mut().map(|s| &mut **s))
    }

    /// Makes room for `count` bytes in front, with whatever was there. `None` if there is no room: see [`HEADROOM`]. An
    /// aggregate with something in front, or that is cut, is a frame like any other: [`Packet::embedded`].
    pub fn prepend(&mut self, count: usize) -> Option<&mut [u8]> {
        let (start, len) = (usize::from(self.head.start), usize::from(self.head.len));
        // The virtio header goes in front of that when the packet is sent.
        if count + NET_HEADER as usize > start {
            return None;
        }
        self.head.set(-(count as i32), len + count)?;
        self.inside = None;
        Some(&mut self.head[..count])
    }

    /// Removes `count` bytes in front. `None` if the first buffer has fewer.
    pub fn strip(&mut self, count: usize) -> Option<()> {
        let rest = usize::from(self.head.len).checked_sub(count)?;
        self.inside = None;
        self.head.set(count as i32, rest)
    }

    /// Cuts a packet to `len` bytes, or makes it longer with whatever is behind it. `None` if that is more than fits
    /// into its buffer, or if it has several.
    pub fn set_len(&mut self, len: usize) -> Option<()> {
        self.inside = None;
        if self.rest.is_empty() { self.head.set(0, len) } else { None }
    }
}

impl Deref for Packet {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.head
    }
}

impl DerefMut for Packet {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.head
    }
}

impl AsMut<[u8]> for Packet {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// One, then some.
struct Chain<'a> {
    head: Option<&'a Segment>,
    rest: std::slice::Iter<'a, Segment>,
}

impl<'a> Iterator for Chain<'a> {
    type Item = &'a Segment;

    #[inline]
    fn next(&mut self) -> Option<&'a Segment> {
        self.head.take().or_else(|| self.rest.next())
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = usize::from(self.head.is_some()) + self.rest.len();
        (len, Some(len))
    }
}

impl ExactSizeIterator for Chain<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(count: u16) -> Rc<Pool> {
        let mut arena = Arena::new(Pool::footprint(count, 256), false).unwrap();
        Pool::allocate(&mut arena, count, 256).unwrap()
    }

    fn packet(pool: &Rc<Pool>) -> Packet {
        let mut packet = Packet::new(pool.take().unwrap(), 0);
        packet.strip(NET_HEADER as usize).unwrap();
        packet.set_len(60).unwrap();
        packet
    }

    #[test]
    fn buffers_come_back() {
        let pool = pool(2);
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        assert!(pool.take().is_none());
        assert_ne!(a.addr(), b.addr());
        drop(a);
        assert_eq!(pool.free(), 1);
        drop(b);
        assert_eq!(pool.free(), 2);
    }

    #[test]
    fn headers_can_be_pushed_and_pulled_within_the_headroom() {
        let pool = pool(1);
        let mut packet = packet(&pool);
        packet.copy_from_slice(&[7; 60]);
        packet.prepend(4).unwrap().copy_from_slice(&[1, 2, 3, 4]);
        assert_eq!(packet[..6], [1, 2, 3, 4, 7, 7]);
        assert_eq!(packet.len(), 64);
        packet.strip(10).unwrap();
        assert_eq!(*packet, [7; 54]);
        assert!(packet.strip(55).is_none());
        assert!(packet.prepend(HEADROOM + 7).is_none(), "the virtio header needs room as well");
        assert!(packet.prepend(HEADROOM + 6).is_some());
    }

    #[test]
    fn a_packet_does_not_outgrow_its_buffer() {
        let pool = pool(1);
        let mut packet = packet(&pool);
        assert!(packet.set_len(256).is_some());
        assert!(packet.set_len(400).is_none());
        assert_eq!(packet.len(), 256);
    }

    #[test]
    fn a_chain_is_walked_in_order() {
        let pool = pool(3);
        let mut packet = packet(&pool);
        packet.fill(1);
        for value in [2, 3] {
            let mut segment = pool.take().unwrap();
            segment.set(0, 10).unwrap();
            segment.fill(value);
            packet.append(segment);
        }
        assert_eq!(packet.total_len(), 80);
        assert_eq!(packet.chunks().map(|c| c[0]).collect::<Vec<_>>(), [1, 2, 3]);
        packet.chunks_mut().for_each(|c| c.fill(9));
        assert!(packet.chunks().flatten().all(|&b| b == 9));
        assert!(packet.set_len(10).is_none());
        drop(packet);
        assert_eq!(pool.free(), 3);
    }
}
