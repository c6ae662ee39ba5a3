//! A guest that offers a chain again as soon as it is written as used, before it is published: as fast as possible, in
//! the middle of a call.

use super::budget::Budget;
use super::enqueue::Enqueue;
use super::posted::{Posted, PostedQueue};
use super::receive::{Prefetch, ReceiveRing};
use super::ring::{DeviceRing, each};
use super::taken::TakenChain;
use crate::areas::Areas;
use crate::config::{Format, Negotiated, features};
use crate::driver::{Buffer, Queue};
use crate::error::Fatal;
use crate::exchange::Instead;
use crate::layout::{F_WRITE, NET_HEADER, Tail, packed_available_bits};
use crate::memory::Arena;
use crate::ordering::{get, publish, put};
use crate::position::Position;
use packet::{BurstStorage, Segment};
use std::cell::Cell;

const SIZE: u16 = 64;

/// A ring whose guest is this rogue.
struct Rogue<'r, R> {
    ring: &'r R,
    areas: &'r Areas,
    format: Format,
    /// The next slot to offer again, the first slot of this call, and the number of slots offered again.
    next: Cell<Position>,
    first: Cell<Position>,
    again: Cell<u32>,
}

impl<R> Rogue<'_, R> {
    fn offer(&self, at: Position) {
        let flags = F_WRITE | packed_available_bits(at.wrap);
        put(self.areas.tail(at.slot), Tail::packed(NET_HEADER - 1, at.slot, flags).0);
    }
}

impl<R: ReceiveRing> ReceiveRing for Rogue<'_, R> {
    type Used = R::Used;

    fn look_ahead(&self, posted: &PostedQueue, wanted: u32, prefetch: Prefetch, budget: &Budget) -> Result<(), Fatal> {
        self.ring.look_ahead(posted, wanted, prefetch, budget)
    }

    fn used(&self) -> R::Used {
        self.ring.used()
    }

    fn set_used(&self, used: R::Used) {
        self.ring.set_used(used);
    }

    fn put_used(&self, used: &mut R::Used, last: Posted, written: u32, instead: Instead) {
        self.ring.put_used(used, last, written, instead);
    }

    fn put_empty(&self, used: &mut R::Used, chain: TakenChain) {
        self.ring.put_empty(used, chain);
        self.again.set(self.again.get() + 1);
        assert!(self.again.get() <= SIZE.into(), "one call gives back more chains than the ring holds");
        match self.format {
            Format::Split => publish(self.areas.avail_idx(), get(self.areas.avail_idx()).wrapping_add(1)),
            Format::Packed => {
                self.offer(self.next.get());
                self.next.set(self.next.get().advance(1, SIZE));
            }
        }
    }

    fn publish(&self) {
        self.again.set(0);
        self.ring.publish();
        if self.format == Format::Packed {
            // Publishing has just overwritten the descriptor offered there.
            self.offer(self.first.replace(self.next.get()));
        }
    }
}

/// Fills a ring with chains too short for a header, and makes calls that could go on for ever.
fn hold(format: Format) -> Result<(), Fatal> {
    let packed = if format == Format::Packed { features::RING_PACKED } else { 0 };
    let negotiated = Negotiated(features::VERSION_1 | features::MRG_RXBUF | packed);
    let mut arena = Arena::new(1 << 16, false).unwrap();
    let config = Queue::layout(&mut arena, SIZE, negotiated).unwrap();
    let addr = arena.allocate(64, 64).unwrap();
    let mut driver = Queue::new(&arena, &config).unwrap();
    for _ in 0..SIZE {
        driver.add(&[Buffer { addr, len: NET_HEADER - 1, writable: true }]).unwrap();
    }
    driver.publish();
    let queue = Enqueue::new(arena.memory().clone(), &config).unwrap();
    each!(&queue.ring, ring => {
        let next = Position { slot: 0, wrap: false };
        let (next, first) = (Cell::new(next), Cell::new(next));
        call(&queue, &Rogue { ring, areas: &ring.common().areas, format, next, first, again: Cell::new(0) })
    })
}

fn call(queue: &Enqueue, rogue: &impl ReceiveRing) -> Result<(), Fatal> {
    let mut storage = Box::<BurstStorage>::default();
    let mut burst = storage.start();
    burst.push(Segment::from(&[0; 60][..]));
    for call in 1..=3 {
        let done = queue.transmit_to(rogue, burst.frames(), packet::Unjudged)?;
        assert_eq!((done.frames, queue.dropped().short), (0, call * u64::from(SIZE)));
    }
    Ok(())
}

#[test]
fn a_split_ring_that_is_offered_again_in_a_call_ends_the_queue() {
    let held = hold(Format::Split);
    assert!(matches!(held, Err(Fatal::IndexJump { size: SIZE, .. })), "{held:?}");
}

#[test]
fn a_packed_ring_that_is_offered_again_in_a_call_has_to_wait_for_the_next() {
    assert_eq!(hold(Format::Packed), Ok(()));
}
