//! A hostile guest against the device side of a transmit and a receive queue in its memory.

use crate::guest::{GuestAddress, LOW, Length, assert_shared, memory, read, write};
use arbitrary::Arbitrary;
use packet::{Burst, BurstStorage, Frames, MAX_BURST, MAX_FRAME, MIN_FRAME, Segment};
use std::sync::Arc;
use virtqueue::device::{Dequeue, Enqueue};
use virtqueue::memory::{DirtyLog, Memory};
use virtqueue::{Fatal, Negotiated, QueueConfig, features, ordering};

/// Distance of the two queues' rings in bytes.
const APART: u64 = 0x8000;

/// A buffer that the device writes to (virtio 1.2 §2.7.5, §2.8.14).
const WRITE: u16 = 2;

#[derive(Arbitrary, Debug)]
pub struct Setup {
    in_order: bool,
    event_idx: bool,
    mergeable: bool,
    size: u16,
    base: Option<u32>,
}

impl Setup {
    /// Describes one of the two queues in the guest's memory.
    pub fn config(&self, packed: bool, queue: bool) -> QueueConfig {
        let bits = [
            (true, features::VERSION_1),
            (packed, features::RING_PACKED),
            (self.in_order, features::IN_ORDER),
            (self.event_idx, features::EVENT_IDX),
            (self.mergeable, features::MRG_RXBUF),
        ];
        let negotiated = Negotiated(bits.iter().filter(|b| b.0).map(|b| b.1).sum());
        let size = match (packed, self.size >> 12) {
            (false, _) => 1 << (self.size % 11),
            (true, 0) => self.size % 1024 + 1,
            (true, _) => self.size % 16 + 1,
        };
        let sizes = QueueConfig::area_sizes(negotiated.format(), size);
        let start = LOW + if queue { APART } else { 0 };
        QueueConfig {
            size,
            descriptors: start,
            driver: start + sizes.descriptors,
            device: start + sizes.descriptors + sizes.driver.next_multiple_of(4),
            base: self.base.unwrap_or(QueueConfig::initial_base(negotiated.format())),
            negotiated,
        }
    }
}

/// A guest's action. `queue` is the transmit queue if false, else the receive queue.
#[derive(Arbitrary, Debug, Clone)]
pub enum Move {
    /// Makes chains available as a good guest does: of one buffer each, one after the other in memory.
    Post {
        queue: bool,
        count: u8,
        addr: GuestAddress,
        len: Length,
    },
    Descriptor {
        queue: bool,
        slot: u16,
        addr: GuestAddress,
        len: Length,
        flags: u16,
        rest: u16,
    },
    Offer {
        queue: bool,
        heads: Vec<u16>,
    },
    AvailableIndex {
        queue: bool,
        index: u16,
    },
    Event {
        queue: bool,
        word: u32,
    },
    Bytes {
        at: GuestAddress,
        bytes: Vec<u8>,
    },
}

#[derive(Arbitrary, Debug)]
pub enum Step {
    Guest(Move),
    /// Forwards a burst from one queue to the other; the guest acts in the middle of it.
    Forward {
        before: u8,
        meanwhile: Vec<Move>,
    },
    /// Delivers frames of another port, cut into segments.
    Deliver {
        frames: Vec<(Length, u16)>,
    },
    Kicks(bool),
    Notify,
    Restart,
}

/// Progress of a well-behaved guest, which makes slot after slot available.
pub struct Guest<'m> {
    memory: &'m Memory,
    pub configs: [QueueConfig; 2],
    next: [(u16, bool); 2],
}

impl<'m> Guest<'m> {
    pub fn new(memory: &'m Memory, setup: &Setup, packed: bool) -> Guest<'m> {
        let configs = [setup.config(packed, false), setup.config(packed, true)];
        let start = configs[0].base as u16;
        let start = if packed { ((start & 0x7fff) % configs[0].size, start >> 15 != 0) } else { (start, true) };
        Guest { memory, configs, next: [start; 2] }
    }

    pub fn make(&mut self, step: &Move) {
        match *step {
            Move::Post { queue, count, addr, len } => {
                for n in 0..u64::from(count % 64) {
                    let slot = self.next[usize::from(queue)].0 % self.configs[usize::from(queue)].size;
                    let addr = addr.addr().wrapping_add(n * u64::from(len.get()));
                    self.descriptor(queue, slot, (addr, len.get(), if queue { WRITE } else { 0 }), slot);
                    self.offer(queue, slot);
                }
            }
            Move::Descriptor { queue, slot, addr, len, flags, rest } => {
                self.descriptor(queue, slot, (addr.addr(), len.get(), flags), rest);
            }
            Move::Offer { queue, ref heads } => heads.iter().take(64).for_each(|&head| self.offer(queue, head)),
            Move::AvailableIndex { queue, index } => {
                write(self.memory, self.configs[usize::from(queue)].driver + 2, &index.to_le_bytes());
            }
            Move::Event { queue, word } => {
                let config = &self.configs[usize::from(queue)];
                let packed = config.negotiated.has(features::RING_PACKED);
                let at = if packed { 0 } else { 4 + 2 * u64::from(config.size) };
                write(self.memory, config.driver + at, &word.to_le_bytes()[..if packed { 4 } else { 2 }]);
            }
            Move::Bytes { at, ref bytes } => write(self.memory, at.addr(), bytes),
        }
    }

    /// Writes a descriptor; `rest` is an id (packed) or the next slot (split).
    fn descriptor(&self, queue: bool, slot: u16, (addr, len, flags): (u64, u32, u16), rest: u16) {
        let config = &self.configs[usize::from(queue)];
        let packed = config.negotiated.has(features::RING_PACKED);
        let at = config.descriptors + 16 * u64::from(slot % config.size);
        let (third, fourth) = if packed { (rest, flags) } else { (flags % 16, rest % (config.size + 1)) };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&addr.to_le_bytes());
        bytes[8..12].copy_from_slice(&len.to_le_bytes());
        bytes[12..14].copy_from_slice(&third.to_le_bytes());
        bytes[14..].copy_from_slice(&fourth.to_le_bytes());
        write(self.memory, at, &bytes);
    }

    fn offer(&mut self, queue: bool, head: u16) {
        let config = &self.configs[usize::from(queue)];
        let (at, wrap) = &mut self.next[usize::from(queue)];
        if config.negotiated.has(features::RING_PACKED) {
            let flags_at = config.descriptors + 16 * u64::from(*at) + 14;
            let flags = u16::from_le_bytes(read(self.memory, flags_at)) & 7;
            let lap = if *wrap { 1 << 7 } else { 1 << 15 };
            write(self.memory, flags_at, &(flags | lap).to_le_bytes());
            *at += 1;
            if *at >= config.size {
                (*at, *wrap) = (0, !*wrap);
            }
        } else {
            write(
                self.memory,
                config.driver + 4 + 2 * u64::from(*at % config.size),
                &(head % config.size).to_le_bytes(),
            );
            *at = at.wrapping_add(1);
            write(self.memory, config.driver + 2, &at.to_le_bytes());
        }
    }
}

pub fn run(setup: &Setup, packed: bool, steps: &[Step]) {
    let memory = memory();
    let mut guest = Guest::new(memory, setup, packed);
    let mut rest = steps;
    while let Some((queues, left)) = life(memory, &mut guest, rest) {
        guest.configs[0].base = queues.0;
        guest.configs[1].base = queues.1;
        rest = left;
    }
}

/// Runs one pair of queues until it is restarted; returns where both stopped and the remaining steps.
fn life<'s>(memory: &Arc<Memory>, guest: &mut Guest<'_>, steps: &'s [Step]) -> Option<((u32, u32), &'s [Step])> {
    let dequeue = Dequeue::new(memory.clone(), &guest.configs[0]).ok()?;
    let enqueue = Enqueue::new(memory.clone(), &guest.configs[1]).ok()?;
    let mut storage = Box::<BurstStorage>::default();
    for (i, step) in steps.iter().enumerate() {
        let done = match step {
            Step::Guest(step) => {
                guest.make(step);
                Ok(())
            }
            Step::Forward { before, meanwhile } => forward(guest, &dequeue, &enqueue, &mut storage, *before, meanwhile),
            Step::Deliver { frames } => deliver(&enqueue, &mut storage, frames),
            Step::Kicks(wanted) => {
                dequeue.set_kicks(*wanted);
                enqueue.set_kicks(*wanted);
                ordering::before_asking();
                dequeue.has_work();
                Ok(())
            }
            Step::Notify => {
                ordering::before_asking();
                dequeue.wants_notification();
                enqueue.wants_notification();
                assert!(!dequeue.wants_notification() && !enqueue.wants_notification(), "once is enough");
                Ok(())
            }
            Step::Restart => return Some(((dequeue.base(), enqueue.base()), &steps[i + 1..])),
        };
        if done.is_err() {
            // The queues stop; their owner still queries positions and counters.
            let _ = (dequeue.base(), enqueue.base(), dequeue.dropped(), enqueue.dropped());
            return None;
        }
    }
    None
}

fn forward(
    guest: &mut Guest<'_>,
    dequeue: &Dequeue,
    enqueue: &Enqueue,
    storage: &mut BurstStorage,
    before: u8,
    meanwhile: &[Move],
) -> Result<(), Fatal> {
    // Frames of another queue that are already in the burst.
    let other = [0u8; 64];
    let mut burst: Burst<'_, '_> = storage.start();
    let before = usize::from(before) % (MAX_BURST + 1);
    (0..before).for_each(|_| burst.push(Segment::from(&other[..])));
    let taken = dequeue.receive(&mut burst)?;
    assert!(taken <= MAX_BURST && burst.len() <= before + taken && burst.len() <= MAX_BURST);
    let frames = burst.frames();
    let received = frames.select(&frames.as_slice()[before..]);
    check(guest.memory, received);
    meanwhile.iter().for_each(|step| guest.make(step));
    check(guest.memory, received);
    let done = enqueue.transmit(received);
    dequeue.recycle();
    let done = done?;
    assert_eq!((done.frames + done.no_buffers + done.too_long + done.over_budget) as usize, received.len());
    Ok(())
}

/// Checks that lent frames are complete and lie in the guest's memory.
fn check(memory: &Memory, frames: Frames<'_>) {
    for frame in frames.as_slice() {
        assert!((MIN_FRAME..=MAX_FRAME).contains(&frame.len()));
        let mut len = 0;
        for segment in frames.segments(frame) {
            assert_shared(memory, segment.as_ptr(), segment.len());
            len += segment.len();
        }
        assert_eq!(len, frame.len());
        frames.copy_to(frame, &mut [0; 42]);
    }
}

/// Delivers frames of another port, cut into segments.
pub fn deliver<L: DirtyLog>(
    enqueue: &Enqueue<L>,
    storage: &mut BurstStorage,
    frames: &[(Length, u16)],
) -> Result<(), Fatal> {
    static BYTES: [u8; MAX_FRAME as usize] = [0xa5; MAX_FRAME as usize];
    let mut burst = storage.start();
    for &(len, cut) in frames.iter().take(MAX_BURST) {
        let len = len.get().clamp(MIN_FRAME, MAX_FRAME);
        let (a, b) = Segment::from(&BYTES[..len as usize]).split_at(u32::from(cut) % len);
        if a.is_empty() || cut % 2 == 0 {
            burst.push(Segment::from(&BYTES[..len as usize]));
        } else {
            assert!(burst.push_segments([a, b]));
        }
    }
    let (count, bytes) = (burst.len(), burst.bytes());
    let done = enqueue.transmit(burst.frames())?;
    assert_eq!((done.frames + done.no_buffers + done.too_long + done.over_budget) as usize, count);
    assert!(done.bytes <= bytes);
    Ok(())
}
