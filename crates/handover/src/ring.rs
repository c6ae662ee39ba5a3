//! A bounded ring of words by which a worker hands packets to a control thread; neither waits for the other.
//!
//! One worker writes, and one control thread at a time reads. The worker stores words before it advances the tail
//! (Release); the reader loads the tail (Acquire) before it reads them. The head works the other way round and marks
//! words that may be overwritten.

use crate::counter::Counter;
use crate::punt::{HEADER, Punt};
use crate::sync::{AtomicU64, Ordering};

/// A ring of packets.
pub struct Ring {
    words: Box<[AtomicU64]>,
    /// Words ever read and written, on separate cache lines to avoid false sharing.
    head: RingIndex,
    tail: RingIndex,
    /// Packets accepted.
    pub pushed: Counter,
    /// Packets lost because the ring was full.
    pub lost: Counter,
}

#[repr(align(128))]
struct RingIndex(AtomicU64);

/// Returns the words that a packet of `len` bytes takes.
#[inline(always)]
pub(crate) fn words(len: usize) -> usize {
    HEADER + len.div_ceil(8)
}

impl Ring {
    /// Returns a ring of `words` words, a power of two.
    pub fn new(words: usize) -> Ring {
        debug_assert!(words.is_power_of_two());
        Ring {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            head: RingIndex(AtomicU64::new(0)),
            tail: RingIndex(AtomicU64::new(0)),
            pushed: Counter::default(),
            lost: Counter::default(),
        }
    }

    #[inline(always)]
    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[at as usize & (self.words.len() - 1)]
    }

    /// Returns the number of its words.
    pub(crate) fn size(&self) -> usize {
        self.words.len()
    }

    /// Returns the position up to which words were written (worker side).
    pub(crate) fn written(&self) -> u64 {
        self.tail.0.load(Ordering::Relaxed)
    }

    /// Returns the position up to which words were read (worker side).
    #[inline(always)]
    pub(crate) fn read(&self) -> u64 {
        self.head.0.load(Ordering::Acquire)
    }

    /// Returns the port and the words of the packet at a position (worker side). Its words are intact even if it was read,
    /// as only the worker overwrites them.
    pub(crate) fn share(&self, position: u64) -> (u32, usize) {
        let [lengths, place] = [0, 1].map(|at| self.word(position + at).load(Ordering::Relaxed));
        (place as u32, words(lengths as u32 as usize))
    }

    /// Pushes a packet (worker side), or counts it as lost if there is no room.
    #[inline]
    pub fn push(&self, punt: &Punt, bytes: &[u8]) -> bool {
        let Some(end) = self.write(punt, bytes) else {
            self.lost.add(1);
            return false;
        };
        self.tail.0.store(end, Ordering::Release);
        self.pushed.add(1);
        true
    }

    /// Writes a packet after the tail, and returns where it ends, if there is room.
    #[inline(always)]
    fn write(&self, punt: &Punt, bytes: &[u8]) -> Option<u64> {
        let tail = self.written();
        let used = (tail - self.read()) as usize;
        let needed = words(bytes.len());
        if needed > self.words.len() - used {
            return None;
        }
        let body = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        for (at, word) in (tail..).zip(punt.header(bytes.len()).into_iter().chain(body)) {
            self.word(at).store(word, Ordering::Relaxed);
        }
        Some(tail + needed as u64)
    }

    /// Returns an upper bound of the number of packets waiting.
    #[inline]
    pub fn waiting(&self) -> u64 {
        let used = self.tail.0.load(Ordering::Acquire) - self.head.0.load(Ordering::Relaxed);
        used.div_ceil(HEADER as u64)
    }

    /// Pops the oldest packet (control side), and replaces the contents of `bytes` by its bytes.
    #[inline]
    pub fn pop(&self, bytes: &mut Vec<u8>) -> Option<Punt> {
        let head = self.head.0.load(Ordering::Relaxed);
        if self.tail.0.load(Ordering::Acquire) == head {
            return None;
        }
        let (punt, len) = Punt::parse([0, 1, 2, 3].map(|at| self.word(head + at).load(Ordering::Relaxed)));
        let end = head + words(len) as u64;
        bytes.clear();
        let body = head + HEADER as u64..end;
        body.for_each(|at| bytes.extend(self.word(at).load(Ordering::Relaxed).to_ne_bytes()));
        bytes.truncate(len);
        self.head.0.store(end, Ordering::Release);
        Some(punt)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::shares::Shares;

    #[test]
    fn packets_come_out_as_they_went_in_round_after_round() {
        let ring = Ring::new(64);
        let mut shares = Shares::new(&ring, &[8]);
        let mut bytes = Vec::new();
        for round in 0..100u32 {
            let punts = [0, 1].map(|n| Punt {
                in_port: round + n,
                cookie: 7,
                table: 3 * n as u8,
                reason: 2 * n as u8,
                metadata: u64::MAX - u64::from(n),
                total: 100,
            });
            let packets = [vec![round as u8; round as usize % 60], vec![1, 2, 3]];
            for (punt, packet) in punts.iter().zip(&packets) {
                assert!(shares.push(&ring, punt, packet));
            }
            assert!(ring.waiting() >= 2);
            for (punt, packet) in punts.iter().zip(&packets) {
                assert_eq!(ring.pop(&mut bytes), Some(*punt));
                assert_eq!(&bytes, packet);
            }
            assert_eq!(ring.pop(&mut bytes), None);
        }
    }

    #[test]
    fn a_full_ring_takes_nothing_and_counts_it() {
        let ring = Ring::new(16);
        let punt = Punt::default();
        assert!(ring.push(&punt, &[0; 56]));
        assert!(!ring.push(&punt, &[0; 9]));
        assert!(ring.push(&punt, &[0; 8]));
        assert_eq!((ring.pushed.get(), ring.lost.get()), (2, 1));
        assert!(ring.pop(&mut Vec::new()).is_some());
        assert!(ring.push(&punt, &[0; 56]));
        assert!(!Ring::new(16).push(&punt, &[0; 1000]), "longer than the ring");
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::shares::Shares;
    use loom::sync::Arc;
    use loom::thread;

    /// [`Shares::push`], or its broken twin.
    type Push = fn(&mut Shares, &Ring, &Punt, &[u8]) -> bool;

    /// In every interleaving, packets come out whole and in order, and words are reused: there is room for one packet. Both
    /// sides wait in a loop, and in threads that did not create the words: loom leaves out interleavings in which a single look
    /// would have succeeded.
    fn packets_are_whole_and_in_order(push: Push) {
        loom::model(move || {
            let ring = Arc::new(Ring::new(8));
            let there = ring.clone();
            let worker = thread::spawn(move || {
                // All packets count for number 0, which has the whole ring.
                let mut shares = Shares::new(&there, &[]);
                for n in 1..=2 {
                    let punt = Punt { in_port: n, cookie: n.into(), ..Punt::default() };
                    while !push(&mut shares, &there, &punt, &[n as u8; 9]) {
                        thread::yield_now();
                    }
                }
            });
            let reader = thread::spawn(move || {
                let mut bytes = Vec::new();
                for n in 1..=2 {
                    let punt = loop {
                        match ring.pop(&mut bytes) {
                            Some(punt) => break punt,
                            None => thread::yield_now(),
                        }
                    };
                    assert_eq!((punt.in_port, punt.cookie), (n, n.into()), "a packet is whole");
                    assert_eq!(bytes, [n as u8; 9], "a packet is whole");
                }
                assert!(ring.pop(&mut bytes).is_none());
            });
            worker.join().unwrap();
            reader.join().unwrap();
        });
    }

    #[test]
    fn packets_go_through_whole() {
        packets_are_whole_and_in_order(Shares::push);
    }

    #[test]
    #[should_panic(expected = "a packet is whole")]
    fn a_tail_that_is_advanced_relaxed_is_caught() {
        packets_are_whole_and_in_order(|_, ring, punt, bytes| {
            let end = ring.write(punt, bytes);
            end.inspect(|&end| ring.tail.0.store(end, Ordering::Relaxed)).is_some()
        });
    }
}
