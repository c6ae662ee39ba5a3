//! Bookkeeping of free descriptors or buffer ids, and of the chains that the device holds.

use super::{Buffer, UsedBuffer};

/// A FIFO of numbers below its capacity. Ids are reused in the order in which they came back, so a device that works in
/// order sees them in sequence.
pub(super) struct Fifo {
    entries: Box<[u16]>,
    head: u32,
    tail: u32,
}

impl Fifo {
    pub(super) fn empty(capacity: u16) -> Fifo {
        Fifo { entries: vec![0; usize::from(capacity).next_power_of_two()].into(), head: 0, tail: 0 }
    }

    /// Creates a FIFO of all numbers below `capacity`.
    pub(super) fn full(capacity: u16) -> Fifo {
        let mut fifo = Fifo::empty(capacity);
        (0..capacity).for_each(|id| fifo.push(id));
        fifo
    }

    #[inline(always)]
    pub(super) fn len(&self) -> u16 {
        self.tail.wrapping_sub(self.head) as u16
    }

    #[inline(always)]
    fn slot(&mut self, at: u32) -> &mut u16 {
        let mask = self.entries.len() - 1;
        &mut self.entries[at as usize & mask]
    }

    #[inline(always)]
    pub(super) fn push(&mut self, id: u16) {
        *self.slot(self.tail) = id;
        self.tail = self.tail.wrapping_add(1);
    }

    #[inline(always)]
    pub(super) fn front(&mut self) -> Option<u16> {
        (self.len() > 0).then(|| *self.slot(self.head))
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<u16> {
        let id = self.front()?;
        self.head = self.head.wrapping_add(1);
        Some(id)
    }
}

/// The chains that a device holds, in the order in which it got them.
pub(super) struct Outstanding {
    in_order: bool,
    order: Fifo,
    /// Size of the chain with this id.
    chains: Box<[OutstandingChain]>,
    /// The chain that ends the batch announced by the device, if one is in progress.
    batch: Option<UsedBuffer>,
}

/// A chain that the device holds, or none.
#[derive(Clone, Copy, Default)]
struct OutstandingChain {
    /// Number of descriptors; zero while the device does not hold the chain.
    descriptors: u16,
    /// Bytes that the device may write.
    writable: u32,
}

/// Meaning of a used entry.
pub(super) struct Done {
    pub(super) id: u16,
    pub(super) len: u32,
    pub(super) descriptors: u16,
}

impl Outstanding {
    pub(super) fn new(size: u16, in_order: bool) -> Outstanding {
        Outstanding {
            in_order,
            order: Fifo::empty(size),
            chains: vec![OutstandingChain::default(); size.into()].into(),
            batch: None,
        }
    }

    #[inline(always)]
    pub(super) fn add(&mut self, id: u16, buffers: &[Buffer]) {
        let chain = &mut self.chains[usize::from(id)];
        chain.descriptors = buffers.len() as u16;
        if self.in_order {
            let writable = buffers.iter().filter(|buffer| buffer.writable);
            chain.writable = writable.fold(0, |sum, buffer| sum.saturating_add(buffer.len));
            self.order.push(id);
        }
    }

    /// Returns the next used chain; `entry` reads the device's used entry. A device that works in order may name only
    /// the last chain of a batch; the others count as used completely (virtio 1.2 §2.7.9, §2.8.9). Returns `None` if
    /// the device named a chain that it does not hold.
    #[inline(always)]
    pub(super) fn next(&mut self, entry: impl FnOnce() -> (u32, u32)) -> Option<Done> {
        let UsedBuffer { id, len } = match self.batch {
            Some(last) => last,
            None => {
                let (id, len) = entry();
                UsedBuffer { id: u16::try_from(id).ok()?, len }
            }
        };
        if self.chains.get(usize::from(id))?.descriptors == 0 {
            return None;
        }
        let done = if self.in_order { self.order.pop()? } else { id };
        self.batch = (done != id).then_some(UsedBuffer { id, len });
        let chain = std::mem::take(&mut self.chains[usize::from(done)]);
        let len = if done == id { len } else { chain.writable };
        Some(Done { id: done, len, descriptors: chain.descriptors })
    }

    /// Reports whether an announced batch is not used up yet.
    pub(super) fn in_batch(&self) -> bool {
        self.batch.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_in_order_device_skips_counts_as_used_completely() {
        let buffer = |len, writable| Buffer { addr: 0, len, writable };
        let mut outstanding = Outstanding::new(4, true);
        outstanding.add(2, &[buffer(10, false), buffer(20, true), buffer(30, true)]);
        outstanding.add(0, &[buffer(40, false)]);
        outstanding.add(1, &[buffer(50, true)]);
        let mut entries = [(1, 7)].into_iter();
        let mut next = || outstanding.next(|| entries.next().expect("one entry for all")).map(|d| (d.id, d.len));
        assert_eq!([next(), next(), next()], [Some((2, 50)), Some((0, 0)), Some((1, 7))]);
        assert!(!outstanding.in_batch());
    }

    #[test]
    fn what_the_device_does_not_have_is_refused() {
        for in_order in [false, true] {
            let mut outstanding = Outstanding::new(4, in_order);
            outstanding.add(3, &[Buffer { addr: 0, len: 1, writable: true }]);
            for id in [0, 4, 65536, u32::MAX] {
                assert!(outstanding.next(|| (id, 0)).is_none(), "{id}");
            }
            assert!(outstanding.next(|| (3, 1)).is_some());
            assert!(outstanding.next(|| (3, 1)).is_none(), "only once");
        }
    }
}
