//! Frames of a guest's transmit queue that another worker reads, and gives back.
//!
//! ```text
//!   receive worker                                    processing worker
//!   Dequeue::receive ──► Lessor::lease ═══ Lease ═══► reads it, sends it
//!   Dequeue::recycle ◄── Lessor::take_back ◄── ids ── Lessee::give_back
//! ```
//!
//! Leases go out over any bounded queue. They are returned through a ring of chain ids with one writer and one reader, made
//! once for each [`Lessor`]. It has an entry for every chain of the queue, and a chain is out once at a time: so it is
//! never full, and giving back never fails or waits.

use super::{Dequeue, lend};
use crate::areas::Areas;
use crate::memory::{DirtyLog, Memory};
use crate::ordering::{consume, get, publish, put};
use crate::sync::{AtomicU16, AtomicU64};
use packet::{Frame, Frames, Lease};
use std::cell::Cell;
use std::sync::Arc;

/// Chain ids of returned leases.
struct ReturnRing {
    /// The chain that was returned as number `n` of all time is at `n` modulo the length, a power of two.
    chains: Box<[AtomicU16]>,
    /// Number of leases that were ever returned.
    returned: ReturnCount,
}

/// On cache lines of its own: the lessor polls it.
#[repr(align(128))]
struct ReturnCount(AtomicU64);

impl ReturnRing {
    fn new(size: u16) -> ReturnRing {
        let chains = (0..usize::from(size).next_power_of_two()).map(|_| AtomicU16::new(0)).collect();
        ReturnRing { chains, returned: ReturnCount(AtomicU64::new(0)) }
    }

    fn entry(&self, number: u64) -> &AtomicU16 {
        &self.chains[number as usize & (self.chains.len() - 1)]
    }

    /// Returns the number of leases that were ever returned. Nobody reads their bytes any more.
    #[inline(always)]
    fn returned(&self) -> u64 {
        consume(&self.returned.0)
    }

    /// Returns `chain` as number `number`, after all reads of its bytes.
    #[inline(always)]
    fn give_back(&self, number: u64, chain: u16) {
        put(self.entry(number), chain);
        publish(&self.returned.0, number + 1);
    }
}

/// Shared by a lessor and its lessee, and kept by either.
struct Shared {
    name: u64,
    ring: ReturnRing,
    /// Number of leases ever granted, as the lessor leaves it when it goes.
    granted: AtomicU64,
    /// The memory that all leases lie in.
    memory: Arc<Memory>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A lease that was not returned by now never will be: its memory stays mapped for ever.
        if get(&self.granted) != self.ring.returned() {
            std::mem::forget(self.memory.clone());
        }
    }
}

/// The end of a way back that stays with the queue: grants leases, and takes back those that were returned.
///
/// The queue may end once [`Lessor::has_all`]; if it ends before that, its memory stays mapped until all leases are returned.
pub struct Lessor {
    shared: Arc<Shared>,
    /// Name of the queue on its frames.
    queue: u64,
    /// Numbers of leases ever granted and taken back.
    granted: Cell<u64>,
    taken_back: Cell<u64>,
}

/// The end of a way back that goes to another worker: gives back the leases of one [`Lessor`].
pub struct Lessee {
    shared: Arc<Shared>,
    /// Number of leases ever given back.
    given_back: Cell<u64>,
}

/// Opens a way back for the frames of the queue in `areas`, which have the name `queue`.
pub(super) fn open(queue: u64, areas: &Areas) -> (Lessor, Lessee) {
    let shared = Arc::new(Shared {
        name: lend::queue_id(),
        ring: ReturnRing::new(areas.size),
        granted: AtomicU64::new(0),
        memory: areas.memory.clone(),
    });
    let lessee = Lessee { shared: shared.clone(), given_back: Cell::new(0) };
    (Lessor { shared, queue, granted: Cell::new(0), taken_back: Cell::new(0) }, lessee)
}

impl Lessor {
    /// Leases `frame`, of the present burst of `queue`: its chain returns to the guest after the lease was taken back.
    /// Returns `None` if the chain cannot be kept: it has several buffers, the frame was cut, it is already leased or kept
    /// ([`Frames::keep`]), or another chain of its id is.
    #[inline]
    pub fn lease<L: DirtyLog>(&self, queue: &Dequeue<L>, frames: &Frames<'_>, frame: &Frame<'_>) -> Option<Lease> {
        let chain = frames.chain_of(frame, self.queue)?;
        let bytes = frame.first();
        let is_ours = queue.id() == self.queue
            && !frames.is_kept(chain)
            && self.shared.memory.contains_host(bytes.as_ptr(), bytes.len().into());
        let has_room = self.granted.get() - self.taken_back.get() < self.shared.ring.chains.len() as u64;
        if !is_ours || !has_room || !queue.keep_one(chain) {
            return None;
        }
        self.granted.set(self.granted.get() + 1);
        // SAFETY: the bytes lie in `memory`, which `Shared` keeps mapped until every lease that was granted is returned: it
        // counts this one, and only `Lessee::give_back`, which consumes the lease, counts it as returned.
        Some(unsafe { Lease::new(bytes, chain.id, self.shared.name) })
    }

    /// Takes back the leases that were returned, and releases their chains: the next [`Dequeue::recycle`] of `queue`, which
    /// must be the one that they were leased from, returns them to the guest. Returns their number.
    #[inline]
    pub fn take_back<L: DirtyLog>(&self, queue: &Dequeue<L>) -> u64 {
        let (from, to) = (self.taken_back.get(), self.shared.ring.returned());
        queue.release((from..to).map(|number| get(self.shared.ring.entry(number))));
        self.taken_back.set(to);
        to - from
    }

    /// Returns the number of leases that are not returned.
    pub fn out(&self) -> u64 {
        self.granted.get() - self.shared.ring.returned()
    }

    /// Reports whether all leases are returned: nobody reads their bytes any more. To return the last chains to the guest,
    /// take them back and recycle.
    pub fn has_all(&self) -> bool {
        self.out() == 0
    }
}

impl Drop for Lessor {
    fn drop(&mut self) {
        put(&self.shared.granted, self.granted.get());
    }
}

impl Lessee {
    /// Returns a lease. Returns it if another lessor granted it.
    #[inline]
    pub fn give_back(&self, lease: Lease) -> Result<(), Lease> {
        if lease.queue() != self.shared.name {
            return Err(lease);
        }
        let number = self.given_back.get();
        self.shared.ring.give_back(number, lease.chain());
        self.given_back.set(number + 1);
        Ok(())
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::thread;

    /// Leases granted: enough to fill the ring, and one that uses an entry again.
    const LEASES: u64 = 3;

    struct World {
        ring: ReturnRing,
        granted: AtomicU64,
        /// The bytes of each lease.
        bytes: [UnsafeCell<u64>; LEASES as usize],
    }

    // SAFETY: loom checks every access to the cells.
    unsafe impl Sync for World {}

    /// A lessor grants two leases, and a third one when they are returned. The lessee reads the bytes of each and returns
    /// it by `give_back`, the real one or a broken twin; the lessor does `at_return` to each that was returned.
    fn leases(give_back: fn(&ReturnRing, u64, u16), at_return: fn(&World, u64)) {
        let bytes = [0, 1, 2].map(UnsafeCell::new);
        let world = World { ring: ReturnRing::new(2), granted: AtomicU64::new(0), bytes };
        let world = loom::sync::Arc::new(world);
        let lessee = {
            let world = world.clone();
            thread::spawn(move || {
                for number in 0..LEASES {
                    while consume(&world.granted) <= number {
                        thread::yield_now();
                    }
                    // SAFETY: loom checks that nobody writes meanwhile.
                    let read = world.bytes[number as usize].with(|bytes| unsafe { *bytes });
                    assert_eq!(read, number, "leased bytes stay");
                    give_back(&world.ring, number, 10 + number as u16);
                }
            })
        };
        let lessor = thread::spawn(move || {
            let mut taken_back = 0;
            for granted in [2, LEASES] {
                publish(&world.granted, granted);
                while taken_back < granted {
                    let returned = world.ring.returned();
                    if returned == taken_back {
                        thread::yield_now();
                    }
                    (taken_back..returned).for_each(|number| at_return(&world, number));
                    taken_back = returned;
                }
            }
        });
        lessee.join().unwrap();
        lessor.join().unwrap();
    }

    fn give_back_relaxed(ring: &ReturnRing, number: u64, chain: u16) {
        put(ring.entry(number), chain);
        put(&ring.returned.0, number + 1);
    }

    /// The lessor reads which chain was returned.
    fn read_chain(world: &World, number: u64) {
        assert_eq!(get(world.ring.entry(number)), 10 + number as u16, "a chain is read as it was returned");
    }

    /// The lessor lets the guest write to the bytes, or unmaps them.
    fn end_bytes(world: &World, number: u64) {
        // SAFETY: loom checks that nobody reads meanwhile.
        world.bytes[number as usize].with_mut(|bytes| unsafe { *bytes = 99 });
    }

    #[test]
    fn chains_are_returned_in_order() {
        loom::model(|| leases(ReturnRing::give_back, read_chain));
    }

    #[test]
    fn bytes_end_after_they_were_read() {
        loom::model(|| leases(ReturnRing::give_back, end_bytes));
    }

    #[test]
    #[should_panic(expected = "a chain is read as it was returned")]
    fn a_chain_that_is_returned_relaxed_is_caught() {
        loom::model(|| leases(give_back_relaxed, read_chain));
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn bytes_that_are_returned_relaxed_are_caught() {
        loom::model(|| leases(give_back_relaxed, end_bytes));
    }
}
