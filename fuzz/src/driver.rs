//! A hostile device against the driver side of a queue.

use crate::guest::{read, write};
use arbitrary::Arbitrary;
use std::cell::RefCell;
use std::collections::VecDeque;
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::Arena;
use virtqueue::{Negotiated, QueueConfig, features, ordering};

#[derive(Arbitrary, Debug)]
pub struct Setup {
    packed: bool,
    in_order: bool,
    event_idx: bool,
    size: u16,
}

#[derive(Arbitrary, Debug)]
pub enum Step {
    // The driver.
    Add(Vec<(u32, bool)>),
    Publish,
    Pop,
    Kick,
    Interrupts(bool),
    HasUsed,
    // The device.
    /// Returns the oldest chains as a good device does, or with another id.
    Return {
        count: u8,
        id: Option<u16>,
        len: u32,
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

const LEN: u64 = 0x1_0000;

/// The queue and the expected state.
struct Rig<'a> {
    arena: &'a Arena,
    config: QueueConfig,
    queue: Queue,
    /// Id and descriptors of each chain that the driver has not got back.
    outstanding: VecDeque<(u16, u16)>,
    /// Position of a good device, in the ring and in `outstanding`.
    slot: u16,
    wrap: bool,
    returned: usize,
}

pub fn run(setup: &Setup, steps: &[Step]) {
    thread_local! {
        static ARENA: RefCell<Arena> = RefCell::new(Arena::new(LEN, false).unwrap());
    }
    ARENA.with_borrow(|arena| {
        let start = arena.host(Arena::BASE, LEN).unwrap();
        // SAFETY: all of the arena, which no queue uses now.
        unsafe { start.as_ptr().write_bytes(0, LEN as usize) };
        let config = setup.config();
        let Ok(queue) = Queue::new(arena, &config) else { return };
        let outstanding = VecDeque::new();
        let mut rig = Rig { arena, config, queue, outstanding, slot: 0, wrap: true, returned: 0 };
        for step in steps {
            if !rig.make(step) {
                return;
            }
        }
    });
}

impl Setup {
    fn config(&self) -> QueueConfig {
        let bits = [
            (true, features::VERSION_1),
            (self.packed, features::RING_PACKED),
            (self.in_order, features::IN_ORDER),
            (self.event_idx, features::EVENT_IDX),
        ];
        let negotiated = Negotiated(bits.iter().filter(|b| b.0).map(|b| b.1).sum());
        let size = if self.packed { self.size % 64 + 1 } else { 1 << (self.size % 9) };
        let sizes = QueueConfig::area_sizes(negotiated.format(), size);
        let start = Arena::BASE + 0x1000;
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

impl Rig<'_> {
    /// Makes one step; returns false when the queue has ended.
    fn make(&mut self, step: &Step) -> bool {
        let memory = self.arena.memory();
        let (config, packed) = (self.config, matches!(self.queue, Queue::Packed(_)));
        match step {
            Step::Add(buffers) => {
                let buffer = |&(len, writable)| Buffer { addr: Arena::BASE, len, writable };
                let buffers: Vec<_> = buffers.iter().take(80).map(buffer).collect();
                let fits = !buffers.is_empty() && buffers.len() <= usize::from(self.queue.free());
                let added = self.queue.add(&buffers);
                assert_eq!(added.is_some(), fits);
                self.outstanding.extend(added.map(|id| (id, buffers.len() as u16)));
            }
            Step::Publish => self.queue.publish(),
            Step::Pop => match self.queue.pop_used() {
                Ok(None) => {}
                Ok(Some(used)) => {
                    let found = self.outstanding.iter().position(|o| o.0 == used.id);
                    let found = found.expect("only what the device has comes back");
                    self.outstanding.remove(found);
                    self.returned = self.returned.saturating_sub(usize::from(found < self.returned));
                    let with_device: u16 = self.outstanding.iter().map(|o| o.1).sum();
                    assert_eq!(self.queue.free(), config.size - with_device);
                }
                Err(_) => return false,
            },
            Step::Kick => {
                ordering::before_asking();
                self.queue.wants_kick();
                assert!(!self.queue.wants_kick(), "once is enough");
            }
            Step::Interrupts(wanted) => self.queue.set_interrupts(*wanted),
            Step::HasUsed => {
                self.queue.has_used();
            }
            Step::Return { count, id, len } => {
                for _ in 0..*count {
                    self.give_back(*id, *len);
                }
            }
            Step::UsedElement { slot, id, len } if !packed => {
                let at = config.device + 4 + 8 * u64::from(slot % config.size);
                write(memory, at, &(u64::from(*id) | u64::from(*len) << 32).to_le_bytes());
            }
            Step::UsedIndex(index) if !packed => write(memory, config.device + 2, &index.to_le_bytes()),
            Step::UsedElement { .. } | Step::UsedIndex(_) => {}
            Step::Tail { slot, tail } => {
                let at = config.descriptors + 16 * u64::from(slot % config.size) + 8;
                write(memory, at, &tail.to_le_bytes());
            }
            Step::Event(word) => {
                let at = if packed { config.device } else { config.device + 4 + 8 * u64::from(config.size) };
                write(memory, at, &word.to_le_bytes()[..if packed { 4 } else { 2 }]);
            }
            Step::Bytes { offset, bytes } => write(memory, Arena::BASE + u64::from(*offset), bytes),
        }
        true
    }

    /// Returns the oldest chain as a good device does; `id` replaces the returned id to lie.
    fn give_back(&mut self, id: Option<u16>, len: u32) {
        let Some(&(oldest, descriptors)) = self.outstanding.get(self.returned) else { return };
        self.returned += 1;
        let (memory, config) = (self.arena.memory(), &self.config);
        let id = id.unwrap_or(oldest);
        if config.negotiated.has(features::RING_PACKED) {
            let lap: u16 = if self.wrap { 1 << 7 | 1 << 15 } else { 0 };
            let tail = u64::from(len) | u64::from(id) << 32 | u64::from(lap) << 48;
            write(memory, config.descriptors + 16 * u64::from(self.slot) + 8, &tail.to_le_bytes());
            self.slot += descriptors;
            if self.slot >= config.size {
                self.slot -= config.size;
                self.wrap = !self.wrap;
            }
        } else {
            let at = config.device + 2;
            let index = u16::from_le_bytes(read(memory, at));
            let element = config.device + 4 + 8 * u64::from(index % config.size);
            write(memory, element, &(u64::from(id) | u64::from(len) << 32).to_le_bytes());
            write(memory, at, &index.wrapping_add(1).to_le_bytes());
        }
    }
}
