//! Bookkeeping of free descriptors or buffer ids, and of the chains that the device holds.

use super::Buffer;
use crate::config::Returns;
use crate::exchange::Instead;
use std::hint::cold_path;

/// Free numbers below a ring's size, which name descriptors or chains.
///
/// They lie in a ring of their own: those that are free in the order in which they came back, and behind them those that are taken. If they
/// come back in sequence, as a device that works in order requires (virtio 1.2 §2.7.9, §2.8.9), each stays at the place that it names.
pub(super) struct Ids {
    returns: Returns,
    free: u16,
    ring: Box<[u16]>,
    /// Place of the next one to take, and of the next one to come back.
    head: u16,
    tail: u16,
}

impl Ids {
    /// Returns all numbers below `size`.
    pub(super) fn new(size: u16, returns: Returns) -> Ids {
        Ids { returns, free: size, ring: (0..size).collect(), head: 0, tail: 0 }
    }

    /// Returns how many are free.
    #[inline(always)]
    pub(super) fn free(&self) -> u16 {
        self.free
    }

    /// Reports whether they come back in sequence.
    #[inline(always)]
    pub(super) fn in_sequence(&self) -> bool {
        self.returns == Returns::InOrder
    }

    /// Takes the next one, if there is any.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<u16> {
        self.free = self.free.checked_sub(1)?;
        let id = self.ring[usize::from(self.head)];
        self.head = self.after(self.head);
        Some(id)
    }

    /// Takes back `id`: the oldest one, if they come back in sequence.
    #[inline(always)]
    pub(super) fn give_back(&mut self, id: u16) {
        self.free += 1;
        if !self.in_sequence() {
            self.ring[usize::from(self.tail)] = id;
        }
        self.tail = self.after(self.tail);
    }

    /// Returns the one to come back next, if they come back in sequence.
    #[inline(always)]
    pub(super) fn oldest(&self) -> Option<u16> {
        self.in_sequence().then_some(self.tail)
    }

    #[inline(always)]
    fn after(&self, place: u16) -> u16 {
        if usize::from(place) + 1 == self.ring.len() { 0 } else { place + 1 }
    }

    /// Returns the place of the next one to take. [`Ids::at`] reads those from there on, and [`Ids::taken`] takes them.
    #[inline(always)]
    pub(super) fn head(&self) -> usize {
        self.head.into()
    }

    /// Returns the place of the next one to come back. [`Ids::put`] sets those from there on, unless they are in sequence, and
    /// [`Ids::given_back`] takes them back.
    #[inline(always)]
    pub(super) fn tail(&self) -> usize {
        self.tail.into()
    }

    /// Returns a place and the number that lies there. The number of places stands for the first one, here and below.
    #[inline(always)]
    pub(super) fn at(&self, place: usize) -> (usize, u16) {
        match self.ring.get(place) {
            Some(&id) => (place, id),
            None => {
                cold_path();
                (0, self.ring[0])
            }
        }
    }

    /// Puts a number at a place. Returns the next place.
    #[inline(always)]
    pub(super) fn put(&mut self, place: usize, id: u16) -> usize {
        let (place, _) = self.at(place);
        self.ring[place] = id;
        place + 1
    }

    /// Takes the next `count`, up to this place.
    #[inline(always)]
    pub(super) fn taken(&mut self, head: usize, count: u16) {
        self.head = self.at(head).0 as u16;
        self.free -= count;
    }

    /// Takes back `count`, up to this place.
    #[inline(always)]
    pub(super) fn given_back(&mut self, tail: usize, count: u16) {
        self.tail = self.at(tail).0 as u16;
        self.free += count;
    }
}

/// The chains that a device holds.
pub(super) struct Outstanding {
    returns: Returns,
    /// The chain with this id.
    pub(super) chains: Box<[OutstandingChain]>,
    /// The entry of the chain that ends the batch announced by the device, if one is in progress.
    pub(super) batch: Option<Entry>,
}

/// A chain that the device holds, or none.
#[derive(Clone, Copy, Default)]
pub(super) struct OutstandingChain {
    /// Number of descriptors; zero while the device does not hold the chain.
    pub(super) descriptors: u16,
    /// Bytes that the device may write.
    pub(super) writable: u32,
}

/// A used entry, as the device wrote it.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) id: u32,
    pub(super) len: u32,
    /// The buffer that comes back.
    pub(super) instead: Instead,
}

/// Meaning of a used entry, for one chain.
pub(super) struct Done {
    pub(super) id: u16,
    pub(super) len: u32,
    pub(super) descriptors: u16,
    /// Number of the buffer that comes back instead of the chain's.
    pub(super) instead: Option<u16>,
}

impl Outstanding {
    pub(super) fn new(size: u16, returns: Returns) -> Outstanding {
        Outstanding { returns, chains: vec![OutstandingChain::default(); size.into()].into(), batch: None }
    }

    #[inline(always)]
    pub(super) fn add(&mut self, id: u16, buffers: &[Buffer]) {
        let chain = &mut self.chains[usize::from(id)];
        chain.descriptors = buffers.len() as u16;
        if self.returns == Returns::InOrder {
            let writable = buffers.iter().filter(|buffer| buffer.writable);
            chain.writable = writable.fold(0, |sum, buffer| sum.saturating_add(buffer.len));
        }
    }

    /// Returns the next used chain; `entry` reads the device's used entry, `oldest` is the chain that comes back next if the
    /// device works in order. Such a device may name only the last chain of a batch; the others count as used completely
    /// (virtio 1.2 §2.7.9, §2.8.9). Returns `None` if the device named a chain that it does not hold.
    #[inline(always)]
    pub(super) fn next(&mut self, oldest: Option<u16>, entry: impl FnOnce() -> Entry) -> Option<Done> {
        if let Some(last) = self.batch {
            return self.go_on(oldest?, last);
        }
        let last @ Entry { id, len, instead } = entry();
        let chain = self.chains.get_mut(id as usize).filter(|chain| chain.descriptors > 0)?;
        let id = id as u16;
        if oldest.is_some_and(|oldest| oldest != id) {
            return self.go_on(oldest?, last);
        }
        Some(Done { id, len, descriptors: std::mem::take(&mut chain.descriptors), instead: instead.buffer() })
    }

    /// Returns the `oldest` chain of a batch that ends with `last`.
    #[inline(always)]
    fn go_on(&mut self, oldest: u16, last: Entry) -> Option<Done> {
        let is_last = u32::from(oldest) == last.id;
        self.batch = (!is_last).then_some(last);
        let chain = &mut self.chains[usize::from(oldest)];
        let descriptors = std::mem::take(&mut chain.descriptors);
        let (len, instead) = if is_last { (last.len, last.instead.buffer()) } else { (chain.writable, None) };
        (descriptors > 0).then_some(Done { id: oldest, len, descriptors, instead })
    }

    /// Reports whether an announced batch is not used up yet.
    pub(super) fn in_batch(&self) -> bool {
        self.batch.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(len: u32, writable: bool) -> Buffer {
        Buffer { addr: 0, len, writable }
    }

    #[test]
    fn what_an_in_order_device_skips_counts_as_used_completely() {
        let mut outstanding = Outstanding::new(4, Returns::InOrder);
        outstanding.add(2, &[buffer(10, false), buffer(20, true), buffer(30, true)]);
        outstanding.add(0, &[buffer(40, false)]);
        outstanding.add(1, &[buffer(50, true)]);
        let mut entries = [Entry { id: 1, len: 7, instead: Instead::of(3) }].into_iter();
        let mut next = |oldest| {
            let done = outstanding.next(Some(oldest), || entries.next().expect("one entry for all"));
            done.map(|done| (done.id, done.len, done.instead))
        };
        assert_eq!([next(2), next(0), next(1)], [Some((2, 50, None)), Some((0, 0, None)), Some((1, 7, Some(3)))]);
        assert!(!outstanding.in_batch());
    }

    #[test]
    fn what_the_device_does_not_have_is_refused() {
        for (oldest, returns) in [(None, Returns::AnyOrder), (Some(3), Returns::InOrder)] {
            let mut outstanding = Outstanding::new(4, returns);
            outstanding.add(3, &[buffer(1, true)]);
            for id in [0, 4, 65536 + 3, u32::MAX] {
                assert!(outstanding.next(oldest, || Entry { id, len: 0, instead: Instead::OWN }).is_none(), "{id}");
            }
            let third = || Entry { id: 3, len: 1, instead: Instead::OWN };
            assert!(outstanding.next(oldest, third).is_some());
            assert!(outstanding.next(oldest, third).is_none(), "only once");
        }
    }

    #[test]
    fn numbers_are_taken_in_the_order_in_which_they_came_back() {
        let orders = [Returns::InOrder, Returns::AnyOrder];
        for (size, returns) in [1, 5, 8].into_iter().flat_map(|size| orders.map(|returns| (size, returns))) {
            let mut ids = Ids::new(size, returns);
            for round in 0..40 {
                let taken: Vec<u16> = std::iter::from_fn(|| ids.take()).take(usize::from(round % size + 1)).collect();
                assert_eq!(ids.free(), size - taken.len() as u16);
                taken.iter().for_each(|&id| {
                    assert!(ids.oldest().is_none_or(|oldest| oldest == id));
                    ids.give_back(id);
                });
                assert!(taken.windows(2).all(|pair| pair[1] == (pair[0] + 1) % size), "{taken:?} of {size}");
            }
            assert_eq!(ids.free(), size);
        }
    }
}
