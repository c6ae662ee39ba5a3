//! A device behind rings in an arena of their driver's, which may lie.

use crate::guest::{Length, read, write};
use arbitrary::Arbitrary;
use std::cell::RefCell;
use virtqueue::memory::{Arena, Memory};
use virtqueue::{Negotiated, QueueConfig, features};

/// Bytes of the arena.
const LEN: u64 = 0x1_0000;

/// Distance of the rings of two queues.
const APART: u64 = 0x8000;

/// Descriptor flags (virtio 1.2 §2.7.5, §2.8.14).
const NEXT: u16 = 1;
const WRITE: u16 = 2;

/// The bits of a packed ring that a device writes in its first lap.
const LAP: u16 = 1 << 7 | 1 << 15;

/// Runs `test` with an arena of zeros.
pub fn with_arena(test: impl FnOnce(&Arena)) {
    thread_local! {
        static ARENA: RefCell<Arena> = RefCell::new(Arena::new(LEN, false).unwrap());
    }
    ARENA.with_borrow(|arena| {
        let start = arena.host(Arena::BASE, LEN).unwrap();
        // SAFETY: all of the arena, which no queue uses now.
        unsafe { start.as_ptr().write_bytes(0, LEN as usize) };
        test(arena)
    })
}

#[derive(Arbitrary, Debug)]
pub struct Setup {
    packed: bool,
    in_order: bool,
    event_idx: bool,
    size: u16,
}

impl Setup {
    /// Describes one of two queues in the arena.
    pub fn config(&self, queue: bool) -> QueueConfig {
        let bits = [
            (true, features::VERSION_1),
            (self.packed, features::RING_PACKED),
            (self.in_order, features::IN_ORDER),
            (self.event_idx, features::EVENT_IDX),
        ];
        let negotiated = Negotiated(bits.iter().filter(|b| b.0).map(|b| b.1).sum());
        let size = if self.packed { self.size % 64 + 1 } else { 1 << (self.size % 9) };
        let sizes = QueueConfig::area_sizes(negotiated.format(), size);
        let start = Arena::BASE + 0x1000 + if queue { APART } else { 0 };
        QueueConfig {
            size,
            descriptors: start,
            driver: start + sizes.descriptors,
            device: start + sizes.descriptors + sizes.driver.next_multiple_of(4),
            base: QueueConfig::initial_base(negotiated.format()),
            negotiated,
        }
    }
}

/// A device's action.
#[derive(Arbitrary, Debug, Clone)]
pub enum Move {
    /// Returns the oldest chains as a good device does, or with another id.
    Return {
        count: u8,
        id: Option<u16>,
        len: Length,
    },
    UsedElement {
        slot: u16,
        id: u32,
        len: u32,
    },
    UsedIndex(u16),
    Tail {
        slot: u16,
        tail: u64,
    },
    Event(u32),
    Bytes {
        offset: u16,
        bytes: Vec<u8>,
    },
}

/// A chain that a driver made available: its id, its number of slots, and its first buffer.
pub struct Chain {
    pub id: u16,
    pub slots: u16,
    pub addr: u64,
    pub len: u32,
    pub is_writable: bool,
}

/// A place among the chains of a ring.
pub struct Cursor {
    /// Index of the available ring, or slot of a packed one and whether its lap is odd.
    at: u16,
    wrap: bool,
}

impl Cursor {
    /// Returns where a ring starts.
    pub fn new() -> Cursor {
        Cursor { at: 0, wrap: true }
    }

    /// Reports whether there is a chain.
    fn is_available(&self, memory: &Memory, config: &QueueConfig) -> bool {
        if config.negotiated.has(features::RING_PACKED) {
            let flags = u16::from_le_bytes(read(memory, config.descriptors + 16 * u64::from(self.at) + 14));
            flags & LAP == if self.wrap { 1 << 7 } else { 1 << 15 }
        } else {
            self.at != u16::from_le_bytes(read(memory, config.driver + 2))
        }
    }

    /// Reads the chain here, and passes it.
    pub fn pass(&mut self, memory: &Memory, config: &QueueConfig) -> Chain {
        let word = |addr| u16::from_le_bytes(read(memory, addr));
        let packed = config.negotiated.has(features::RING_PACKED);
        let head = if packed { self.at } else { word(config.driver + 4 + 2 * u64::from(self.at % config.size)) };
        let slot = |slot: u16| config.descriptors + 16 * u64::from(slot % config.size);
        let flags_at = if packed { 14 } else { 12 };
        let (addr, len) = (read(memory, slot(head)), read(memory, slot(head) + 8));
        let (addr, len) = (u64::from_le_bytes(addr), u32::from_le_bytes(len));
        let is_writable = word(slot(head) + flags_at) & WRITE != 0;
        if !packed {
            self.at = self.at.wrapping_add(1);
            return Chain { id: head, slots: 1, addr, len, is_writable };
        }
        let mut slots = 1;
        while slots < config.size && word(slot(head + slots - 1) + 14) & NEXT != 0 {
            slots += 1;
        }
        let id = word(slot(head + slots - 1) + 12);
        self.at += slots;
        if self.at >= config.size {
            self.at -= config.size;
            self.wrap = !self.wrap;
        }
        Chain { id, slots, addr, len, is_writable }
    }
}

/// The device.
pub struct Backend<'a> {
    memory: &'a Memory,
    config: QueueConfig,
    /// The oldest chain that it has not returned.
    next: Cursor,
}

impl Backend<'_> {
    pub fn new(memory: &Memory, config: QueueConfig) -> Backend<'_> {
        Backend { memory, config, next: Cursor::new() }
    }

    pub fn make(&mut self, step: &Move) {
        let (memory, config) = (self.memory, self.config);
        let packed = config.negotiated.has(features::RING_PACKED);
        match step {
            Move::Return { count, id, len } => {
                for _ in 0..*count {
                    self.give_back(*id, len.get());
                }
            }
            Move::UsedElement { slot, id, len } if !packed => {
                let at = config.device + 4 + 8 * u64::from(slot % config.size);
                write(memory, at, &(u64::from(*id) | u64::from(*len) << 32).to_le_bytes());
            }
            Move::UsedIndex(index) if !packed => write(memory, config.device + 2, &index.to_le_bytes()),
            Move::UsedElement { .. } | Move::UsedIndex(_) => {}
            Move::Tail { slot, tail } => {
                let at = config.descriptors + 16 * u64::from(slot % config.size) + 8;
                write(memory, at, &tail.to_le_bytes());
            }
            Move::Event(word) => {
                let at = if packed { config.device } else { config.device + 4 + 8 * u64::from(config.size) };
                write(memory, at, &word.to_le_bytes()[..if packed { 4 } else { 2 }]);
            }
            Move::Bytes { offset, bytes } => write(memory, Arena::BASE + u64::from(*offset), bytes),
        }
    }

    /// Returns the oldest chain as a good device does; `id` replaces the returned id to lie.
    fn give_back(&mut self, id: Option<u16>, len: u32) {
        let (memory, config) = (self.memory, &self.config);
        if !self.next.is_available(memory, config) {
            return;
        }
        let Cursor { at, wrap } = self.next;
        let id = id.unwrap_or(self.next.pass(memory, config).id);
        if config.negotiated.has(features::RING_PACKED) {
            let lap = if wrap { LAP } else { 0 };
            let tail = u64::from(len) | u64::from(id) << 32 | u64::from(lap) << 48;
            write(memory, config.descriptors + 16 * u64::from(at) + 8, &tail.to_le_bytes());
        } else {
            let at = config.device + 2;
            let index = u16::from_le_bytes(read(memory, at));
            let element = config.device + 4 + 8 * u64::from(index % config.size);
            write(memory, element, &(u64::from(id) | u64::from(len) << 32).to_le_bytes());
            write(memory, at, &index.wrapping_add(1).to_le_bytes());
        }
    }
}
