//! Measures from which length on it takes less time to exchange a frame ([`crate::exchange`]) than to copy it.
//!
//! Two functions, driven by a thread of their own, touch a line of each frame; the calling thread is the switch. So both pay for the
//! lines that move between processors, as they will in use: of a copied frame its bytes, of an exchanged one more of the rings.

use crate::config::{Negotiated, features};
use crate::device::{Dequeue, Enqueue};
use crate::driver::{Buffer, Queue};
use crate::error::{Fatal, SetupError};
use crate::exchange::{Geometry, Grant, Group, GroupOptions, Joined};
use crate::layout::NET_HEADER;
use crate::memory::{Arena, Memory, MemoryError, Region};
use packet::{BurstStorage, MAX_BURST};
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Lengths that are tried, in bytes.
const LENGTHS: [u32; 5] = [64, 128, 256, 512, 1024];
/// Bursts of each length that are exchanged, and as many that are copied.
const BURSTS: usize = 33;
/// Descriptors of each queue, and buffers of each function: those of both queues and as many to spare.
const SIZE: u16 = 128;
const OWN: u16 = 4 * SIZE;
/// Where the functions have the group's memory.
const AT: u64 = 1 << 40;
/// Bytes of a frame that functions touch.
const LINE: u64 = 64;

/// Error: the lengths could not be tried.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum TrialError {
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Ring(#[from] Fatal),
}

/// Returns the length in bytes from which on exchanges take no more than an eighth longer than copies: zero if they never do, and
/// [`u32::MAX`] if even those of the longest frames that were tried did. Takes some milliseconds.
pub fn threshold(huge: bool) -> Result<u32, TrialError> {
    let geometry = Geometry::new(2 * OWN, 2048).expect("there can be such buffers");
    let group = Group::new(GroupOptions { ports: 2, geometry, threshold: 0, huge })?;
    let (sender, from) = Function::new(&group, 0)?;
    let (receiver, to) = Function::new(&group, 1)?;
    let mut dequeue = Dequeue::new(sender.memory.clone(), &sender.config)?;
    dequeue.allow_exchange(from);
    let mut enqueue = Enqueue::new(receiver.memory.clone(), &receiver.config)?;
    enqueue.allow_exchange(to);
    let turn = Turn::default();
    let times = std::thread::scope(|scope| {
        let functions = scope.spawn(|| turn.functions(sender, receiver));
        let times = turn.switch(&dequeue, &enqueue);
        turn.ended.store(true, Ordering::Release);
        functions.join().expect("it does not panic").and(times)
    })?;
    // The rest of a copy is the receiver's to pay: it reads the frame from another processor's cache.
    let wins = |[exchanged, copied]: [Duration; 2]| exchanged < copied + copied / 8;
    let from = times.iter().rposition(|times| !wins(*times)).map_or(0, |last| last + 1);
    Ok(match from {
        0 => 0,
        _ => LENGTHS.get(from).copied().unwrap_or(u32::MAX),
    })
}

/// Whose turn it is: the functions prepare a burst, and the switch forwards it.
#[derive(Default)]
struct Turn {
    is_the_switchs: AtomicBool,
    ended: AtomicBool,
}

impl Turn {
    /// Waits for a turn; returns false if there is none any more.
    fn wait(&self, switch: bool) -> bool {
        let mut rounds = 0u32;
        while self.is_the_switchs.load(Ordering::Acquire) != switch {
            if self.ended.load(Ordering::Acquire) {
                return false;
            }
            rounds += 1;
            // Both threads may have the same processor.
            if rounds.is_multiple_of(1024) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        true
    }

    fn pass(&self, to_switch: bool) {
        self.is_the_switchs.store(to_switch, Ordering::Release);
    }

    /// Is both functions. The lengths follow each other as in [`Turn::switch`].
    fn functions(&self, mut sender: Function, mut receiver: Function) -> Result<(), Fatal> {
        let mut run = || -> Result<(), Fatal> {
            for length in LENGTHS {
                for _ in 0..2 * BURSTS {
                    if !self.wait(false) {
                        return Ok(());
                    }
                    sender.take_back(false)?;
                    receiver.take_back(true)?;
                    receiver.give(receiver.queue.free().into(), receiver.geometry.room(), true);
                    sender.give(MAX_BURST, length + NET_HEADER, false);
                    self.pass(true);
                }
            }
            Ok(())
        };
        let done = run();
        if done.is_err() {
            self.ended.store(true, Ordering::Release);
        }
        done
    }

    /// Is the switch. Returns the medians of the times of a burst for each length: exchanged, and copied.
    fn switch(&self, dequeue: &Dequeue, enqueue: &Enqueue) -> Result<[[Duration; 2]; LENGTHS.len()], Fatal> {
        let mut storage = Box::<BurstStorage>::default();
        let mut medians = [[Duration::ZERO; 2]; LENGTHS.len()];
        for median in &mut medians {
            let mut times = [const { Vec::new() }; 2];
            for number in 0..2 * BURSTS {
                if !self.wait(true) {
                    return Ok(medians);
                }
                let began = Instant::now();
                let mut burst = storage.start();
                dequeue.receive(&mut burst)?;
                let frames = burst.frames();
                let kind = number % 2;
                enqueue.transmit(if kind == 0 { frames.exchangeable() } else { frames })?;
                dequeue.recycle();
                times[kind].push(began.elapsed());
                self.pass(false);
            }
            *median = times.map(|mut times| {
                times.sort_unstable();
                times[times.len() / 2]
            });
        }
        Ok(medians)
    }
}

/// A function with one queue.
struct Function {
    queue: Queue,
    config: crate::QueueConfig,
    memory: Arc<Memory>,
    geometry: Geometry,
    /// Its free buffers, and the buffer of each chain.
    free: VecDeque<u16>,
    out: Vec<u16>,
    /// Holds the ring.
    _arena: Arena,
}

impl Function {
    fn new(group: &Arc<Group>, port: u16) -> Result<(Function, Joined), TrialError> {
        let seat = group.join(port.into(), OWN).expect("the group was made for both");
        let Grant { geometry, buffers } = Grant::of(&seat);
        let mut arena = Arena::new(1 << 16, false)?;
        let len = geometry.bytes().next_multiple_of(4096);
        let region = Region { guest_addr: AT, user_addr: AT, len, offset: 0, file: group.file().clone() };
        let memory = Arc::new(arena.memory().with_region(region)?);
        let negotiated = Negotiated(features::VERSION_1 | features::MRG_RXBUF | features::EXCHANGE);
        let config = Queue::layout(&mut arena, SIZE, negotiated).expect("the arena was made to fit");
        let queue = Queue::new(&arena, &config)?;
        let joined = Joined::find(&seat, port, &memory).expect("it has the group's memory");
        let out = vec![0; SIZE.into()];
        Ok((Function { queue, config, memory, geometry, free: buffers.into(), out, _arena: arena }, joined))
    }

    /// Makes up to `count` buffers available, with `len` bytes each. Writes the first line of those that it sends.
    fn give(&mut self, count: usize, len: u32, writable: bool) {
        for _ in 0..count {
            let Some(buffer) = self.free.pop_front() else { break };
            let addr = AT + self.geometry.offset(buffer);
            if !writable {
                self.words(addr).for_each(|word| word.store(addr, Ordering::Relaxed));
            }
            let id = self.queue.add(&[Buffer { addr, len, writable }]).expect("the ring has room for it");
            self.out[usize::from(id)] = buffer;
        }
        self.queue.publish();
    }

    /// Takes buffers back. Reads the first line of those that it received.
    fn take_back(&mut self, received: bool) -> Result<(), Fatal> {
        while let Some(used) = self.queue.pop_used()? {
            let buffer = used.instead.unwrap_or(self.out[usize::from(used.id)]);
            if received {
                let addr = AT + self.geometry.offset(buffer);
                self.words(addr).for_each(|word| _ = black_box(word.load(Ordering::Relaxed)));
            }
            self.free.push_back(buffer);
        }
        Ok(())
    }

    /// Returns the words of the first line of the frame in the buffer at `addr`.
    fn words(&self, addr: u64) -> impl Iterator<Item = &AtomicU64> {
        let frame = self.memory.translate(addr + u64::from(NET_HEADER), LINE).expect("it is in the group's memory");
        assert!(frame.addr().get().is_multiple_of(8), "frames begin on lines");
        // SAFETY: a line from here on is mapped as long as the memory is, aligned, and accessed by the copy and atomically only.
        (0..LINE as usize / 8).map(move |at| unsafe { frame.cast::<AtomicU64>().add(at).as_ref() })
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_trial_ends_with_one_of_its_lengths() {
        let found = threshold(false).unwrap();
        assert!(found == 0 || found == u32::MAX || LENGTHS[1..].contains(&found), "{found}");
    }
}
