//! A guest that writes its rings by hand, and single bursts through the device side.

use super::{Case, Driver, frame};
use packet::{BurstStorage, Segment};
use virtqueue::device::{Delivered, Dequeue, Enqueue};
use virtqueue::{Fatal, NET_HEADER};

/// Default ring size in descriptors.
pub const SIZE: u16 = 8;

/// Descriptor flags (virtio 1.2 §2.7.5, §2.8.14).
pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

/// A guest that writes its ring by hand. Descriptors are laid out one after the other, as a packed ring must.
pub struct Guest {
    pub driver: Driver,
    pub packed: bool,
    pub slot: u16,
    pub wrap: bool,
    avail: u16,
}

impl Guest {
    pub fn new(packed: bool) -> Guest {
        Guest::sized(packed, SIZE)
    }

    /// Creates a guest with a ring of `size` descriptors and as many buffer areas.
    pub fn sized(packed: bool, size: u16) -> Guest {
        let case = Case { packed, in_order: false, event_idx: false, mergeable: true, size };
        Guest { driver: Driver::new(case), packed, slot: 0, wrap: true, avail: 0 }
    }

    fn put<const N: usize>(&self, addr: u64, value: [u8; N]) {
        self.driver.write(addr, &value);
    }

    /// Writes a descriptor at `at`; `rest` is an id (packed) or the next slot (split).
    pub fn descriptor(&self, at: u64, (addr, len, flags): (u64, u32, u16), rest: u16) {
        let (first, second) = if self.packed { (rest, flags) } else { (flags, rest) };
        self.put(at, addr.to_le_bytes());
        self.put(at + 8, len.to_le_bytes());
        self.put(at + 12, first.to_le_bytes());
        self.put(at + 14, second.to_le_bytes());
    }

    /// Makes a chain available: address, length and flags of each descriptor, without NEXT.
    pub fn offer(&mut self, chain: &[(u64, u32, u16)]) {
        let config = self.driver.config;
        let head = self.slot;
        for (i, &(addr, len, flags)) in chain.iter().enumerate() {
            let next = if i + 1 < chain.len() { NEXT } else { 0 };
            let lap = match (self.packed, self.wrap) {
                (false, _) => 0,
                (true, true) => 1 << 7,
                (true, false) => 1 << 15,
            };
            let at = config.descriptors + 16 * u64::from(self.slot);
            let after = (self.slot + 1) % config.size;
            let rest = if self.packed { head } else { after };
            self.descriptor(at, (addr, len, flags | next | lap), rest);
            self.wrap ^= after == 0;
            self.slot = after;
        }
        if !self.packed {
            self.entry(head);
            self.index(self.avail.wrapping_add(1));
        }
    }

    /// Split: writes the next entry of the available ring.
    pub fn entry(&self, head: u16) {
        self.put(
            self.driver.config.driver + 4 + 2 * u64::from(self.avail % self.driver.config.size),
            head.to_le_bytes(),
        );
    }

    /// Split: writes the available index.
    pub fn index(&mut self, index: u16) {
        self.avail = index;
        self.put(self.driver.config.driver + 2, index.to_le_bytes());
    }

    /// Returns area `index` after writing a frame of `len` bytes behind a header there.
    pub fn area(&self, index: u16, len: usize) -> u64 {
        let addr = self.driver.area(index);
        self.driver.write(addr + u64::from(NET_HEADER), &frame(index.into(), len));
        addr
    }
}

/// Runs `test` for both formats.
pub fn both(test: impl Fn(Guest)) {
    [false, true].into_iter().for_each(|packed| test(Guest::new(packed)));
}

/// Receives one burst and returns copies of its frames.
pub fn receive(dequeue: &Dequeue) -> Result<Vec<Vec<u8>>, Fatal> {
    let mut storage = Box::<BurstStorage>::default();
    let mut burst = storage.start();
    dequeue.receive(&mut burst)?;
    let frames = burst.frames();
    let copy = |f| {
        let mut bytes = vec![0; 1 << 17];
        let len = frames.copy_to(f, &mut bytes);
        bytes.truncate(len);
        bytes
    };
    let received = frames.as_slice().iter().map(copy).collect();
    dequeue.recycle();
    Ok(received)
}

/// Delivers `frames` in one burst.
pub fn transmit(enqueue: &Enqueue, frames: &[&[u8]]) -> Result<Delivered, Fatal> {
    let mut storage = Box::<BurstStorage>::default();
    let mut burst = storage.start();
    frames.iter().for_each(|&f| burst.push(Segment::from(f)));
    enqueue.transmit(burst.frames())
}
