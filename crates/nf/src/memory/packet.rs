//! Packets: owned bytes in buffers of a pool.

use super::{Buffers, InHand, Inside};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use vhost_user::frontend::Member;
use virtqueue::NET_HEADER;
use virtqueue::memory::{Arena, Memory};

/// Bytes before a new or received packet for [`Packet::prepend`]: enough for the headers of an aggregate, and a whole
/// number of cache lines, so that a packet begins on a line.
pub const HEADROOM: usize = 128;

const _: () = assert!(HEADROOM == virtqueue::exchange::HEADROOM as usize, "a group leaves as much room");

/// Offset of a packet in its buffer: after the headroom and the virtio header.
const START: u16 = HEADROOM as u16 + NET_HEADER as u16;

/// A pool of buffers, with a list of the free ones.
#[derive(Debug)]
pub(crate) struct Pool {
    buffers: Buffers,
    free: Line<RefCell<Vec<u16>>>,
    /// The buffers that the device does not have, if they are those of a group.
    in_hand: Option<InHand>,
}

/// On cache lines of its own: each packet changes the list of free buffers, and the number of owners in front of the pool,
/// while workers of a crew read where buffers are. Processors fetch pairs of lines of 64 bytes.
#[derive(Debug)]
#[repr(align(128))]
struct Line<T>(T);

impl Pool {
    /// Allocates `count` buffers for packets of `size` bytes each; `None` if the arena is too small.
    pub(crate) fn allocate(arena: &mut Arena, count: u16, size: usize) -> Option<Rc<Pool>> {
        let buffers = Buffers::allocate(arena, count, usize::from(START) + size)?;
        // The buffer freed last is taken first: its lines are still in the cache.
        Some(Rc::new(Pool { buffers, free: Line(RefCell::new((0..count).rev().collect())), in_hand: None }))
    }

    /// Returns the pool of a function in a group. It leaves out buffers of `held`: packets from before a reconnect lie there.
    pub(crate) fn of_group(member: &Member, held: &[u16]) -> Rc<Pool> {
        let buffers = Buffers::of_group(member);
        let own: Vec<u16> = member.grant.buffers.iter().filter(|own| !held.contains(own)).copied().collect();
        let in_hand = Some(InHand::new(&own, buffers.count()));
        Rc::new(Pool { buffers, free: Line(RefCell::new(own)), in_hand })
    }

    /// Returns the pool of `count` pages of an area from page `first`; `None` if it has fewer.
    pub(crate) fn of_pages(area: &Arc<Memory>, first: u32, count: u16) -> Option<Rc<Pool>> {
        let buffers = Buffers::of_pages(area, first, count)?;
        // Neighbours are used one after the other, so that they are exchanged together.
        Some(Rc::new(Pool { buffers, free: Line(RefCell::new((0..count).rev().collect())), in_hand: None }))
    }

    /// Length of the longest packet that fits into a page.
    pub(crate) const LONGEST_IN_PAGE: usize = zcopy::PAGE - START as usize;

    /// Returns the buffers of a group in which packets lie.
    pub(crate) fn held(&self) -> Vec<u16> {
        let mut free = vec![false; self.buffers.count().into()];
        self.free.0.borrow().iter().for_each(|&number| free[usize::from(number)] = true);
        let in_hand = self.in_hand.iter().flat_map(InHand::numbers);
        in_hand.filter(|number| !free[usize::from(*number)]).collect()
    }

    /// Returns the bytes of arena that `count` buffers for packets of `size` bytes take.
    pub(crate) fn footprint(count: u16, size: usize) -> u64 {
        Buffers::footprint(count, usize::from(START) + size)
    }

    /// Takes a buffer, as a segment of all bytes after the headroom, with arbitrary contents. `None` if all are in use.
    #[inline]
    pub(crate) fn take(self: &Rc<Pool>) -> Option<Segment> {
        let index = self.free.0.borrow_mut().pop()?;
        let len = self.buffers.size() - HEADROOM;
        Some(Segment { pool: self.clone(), index, start: HEADROOM as u16, len: len as u16 })
    }

    /// Returns the length of the longest packet that fits into one buffer after the headroom.
    pub(crate) fn longest(&self) -> usize {
        self.buffers.size() - usize::from(START)
    }

    /// Returns the number of free buffers.
    pub(crate) fn free(&self) -> usize {
        self.free.0.borrow().len()
    }
}

/// Index of a segment that has no buffer: pools have fewer.
const NO_BUFFER: u16 = u16::MAX;

/// A run of bytes in one buffer. It owns the buffer, and returns it to the pool on drop.
#[derive(Debug)]
pub(crate) struct Segment {
    pool: Rc<Pool>,
    index: u16,
    start: u16,
    len: u16,
}

impl Segment {
    /// Notes that the device gets the buffer.
    #[inline]
    pub(crate) fn go(&self) {
        if let Some(in_hand) = &self.pool.in_hand {
            in_hand.give(self.index);
        }
    }

    /// Takes the buffer back from the device, or another one of the group that it gives instead, as far as [`Pool::take`] gives
    /// it. Returns `None` if the device can't have that one to give; then this has no buffer, and is good for nothing.
    #[inline]
    pub(crate) fn come_back(&mut self, instead: Option<u16>) -> Option<()> {
        let number = instead.unwrap_or(self.index);
        let came = match &self.pool.in_hand {
            Some(in_hand) => in_hand.take(number),
            None => instead.is_none().then_some(()),
        };
        if came.is_none() {
            // Another segment may have the buffer.
            self.index = NO_BUFFER;
        } else if instead.is_some() {
            let len = self.pool.buffers.size() - HEADROOM;
            (self.index, self.start, self.len) = (number, HEADROOM as u16, len as u16);
        }
        came
    }

    /// Returns the guest address of the first byte.
    #[inline]
    pub(crate) fn addr(&self) -> u64 {
        self.pool.buffers.addr(self.index) + u64::from(self.start)
    }

    /// Returns the length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> u16 {
        self.len
    }

    /// Moves the first byte by `start` within the buffer, and sets the length. Returns `None` if that exceeds the buffer.
    #[inline]
    pub(crate) fn set(&mut self, start: i32, len: usize) -> Option<()> {
        let start = i32::from(self.start) + start;
        if start < 0 || start as usize + len > self.pool.buffers.size() {
            return None;
        }
        (self.start, self.len) = (start as u16, len as u16);
        Some(())
    }

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
        // SAFETY: there is one segment per taken index, this one, and the buffer's bytes are only accessed through it.
        // A pair stores the segments that the device owns, and never accesses their bytes meanwhile. A buffer of a group may
        // come back by another segment than the one it went by, but only once: `InHand` tells.
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
        if self.index != NO_BUFFER {
            self.pool.free.0.borrow_mut().push(self.index);
        }
    }
}

/// An owned Ethernet frame: received, or allocated by [`crate::Port::alloc`]. Dropping it frees its buffers.
///
/// It dereferences to the bytes of its first buffer. A frame that the device wrote to several buffers (mergeable receive
/// buffers) stays in them: headers are in the first one, [`Packet::chunks`] returns all, and it can be forwarded as it
/// is.
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

    /// Allocates a packet of `len` bytes with arbitrary contents; `None` if it does not fit into one buffer, or if all are in
    /// use.
    #[inline]
    pub(crate) fn allocate(pool: &Rc<Pool>, len: usize) -> Option<Packet> {
        let mut head = pool.take()?;
        head.set(NET_HEADER as i32, len)?;
        Some(Packet::new(head, 0))
    }

    /// Returns the packets in it, if it is an aggregate that was left whole.
    #[inline]
    pub(crate) fn inside(&self) -> Option<Inside> {
        self.inside
    }

    /// Marks the packet as a checked aggregate that is left whole; returns false if it is in several buffers.
    #[inline]
    pub(crate) fn mark(&mut self, inside: Inside) -> bool {
        self.inside = self.rest.is_empty().then_some(inside);
        self.inside.is_some()
    }

    /// Resizes the packet to `front` bytes with arbitrary contents, followed by the `size` bytes from `at`, some of which may
    /// still have to be written. Returns `None`, without any change, if they don't fit into its buffer, or if it has several.
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
        Segments { head: Some(&self.head), rest: self.rest.iter() }
    }

    pub(crate) fn head_mut(&mut self) -> &mut Segment {
        &mut self.head
    }

    pub(crate) fn rest_mut(&mut self) -> &mut [Segment] {
        &mut self.rest
    }

    /// Returns the queue pair that it came from, and goes to if the output port has as many.
    pub fn queue(&self) -> u16 {
        self.queue
    }

    /// Chooses the queue pair to send it to.
    pub fn set_queue(&mut self, queue: u16) {
        self.queue = queue;
    }

    /// Returns the length of the whole frame.
    #[inline]
    pub fn total_len(&self) -> usize {
        usize::from(self.head.len) + self.rest.iter().map(|s| usize::from(s.len)).sum::<usize>()
    }

    /// Returns the frame's bytes, buffer by buffer.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.segments().map(|s| &**s)
    }

    /// Returns the frame's bytes, buffer by buffer, for writing.
    pub fn chunks_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        std::iter::once(&mut *self.head).chain(self.rest.iter_mut().map(|s| &mut **s))
    }

    /// Adds `count` bytes with arbitrary contents in front. Returns `None` if there is no room: see [`HEADROOM`]. An
    /// aggregate that is extended or cut becomes an ordinary frame: see [`Packet::embedded`].
    pub fn prepend(&mut self, count: usize) -> Option<&mut [u8]> {
        let (start, len) = (usize::from(self.head.start), usize::from(self.head.len));
        // The virtio header goes in front when the packet is sent.
        if count + NET_HEADER as usize > start {
            return None;
        }
        self.head.set(-(count as i32), len + count)?;
        self.inside = None;
        Some(&mut self.head[..count])
    }

    /// Removes `count` bytes in front. Returns `None` if the first buffer has fewer.
    pub fn strip(&mut self, count: usize) -> Option<()> {
        let rest = usize::from(self.head.len).checked_sub(count)?;
        self.inside = None;
        self.head.set(count as i32, rest)
    }

    /// Sets the length to `len` bytes; added bytes have arbitrary contents. Returns `None` if they don't fit into its buffer,
    /// or if it has several.
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

/// An iterator over the first segment and the rest.
struct Segments<'a> {
    head: Option<&'a Segment>,
    rest: std::slice::Iter<'a, Segment>,
}

impl<'a> Iterator for Segments<'a> {
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

impl ExactSizeIterator for Segments<'_> {}

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
