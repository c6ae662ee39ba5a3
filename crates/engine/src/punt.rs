//! How a worker hands packets to a control thread: a bounded ring of words, on which neither waits for the other, and a notifier.
//!
//! Ports that use one ring have a share of it each ([`Shares`]): a port that floods it leaves room for the others.
//!
//! One worker writes, and one control thread at a time reads. The worker stores words before it advances the tail
//! (Release); the reader loads the tail (Acquire) before it reads them. The head works the other way round and marks
//! words that may be overwritten.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::counters::Counter;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;

/// Words before a packet's bytes.
const HEADER: usize = 4;

/// Metadata of a packet for a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Punt {
    /// Number of the port that received it.
    pub(crate) in_port: u32,
    /// Cookie of the flow that sends it.
    pub(crate) cookie: u64,
    /// The flow's table.
    pub(crate) table: u8,
    /// Whether that flow is the table-miss flow.
    pub(crate) is_miss: bool,
    /// The packet's metadata.
    pub(crate) metadata: u64,
    /// Length of the whole packet, of which only a part may be in the ring.
    pub(crate) total: u32,
}

/// A ring of packets.
pub(crate) struct Ring {
    words: Box<[AtomicU64]>,
    /// Words ever read and written, on separate cache lines to avoid false sharing.
    head: Position,
    tail: Position,
    /// Packets accepted, and packets lost for want of room.
    pub(crate) pushed: Counter,
    pub(crate) lost: Counter,
}

#[repr(align(128))]
struct Position(AtomicU64);

/// Room that each port uses in a ring. Only the worker accesses it.
pub(crate) struct Shares {
    /// Position up to which words that were read have been deducted. Their contents are intact, as only the worker
    /// overwrites them.
    seen: u64,
    /// Words in use, by port number. Packets of no known port count for number 0.
    held: Box<[usize]>,
    /// Limit of each port's words.
    share: usize,
}

impl Shares {
    /// Returns the shares of ports with these numbers, and of number 0, starting at the current tail.
    pub(crate) fn new(ring: &Ring, numbers: &[u32]) -> Shares {
        let largest = numbers.iter().max().map_or(0, |number| *number as usize);
        let share = ring.words.len() / (numbers.len() + 1);
        Shares { seen: ring.tail.0.load(Ordering::Relaxed), held: vec![0; largest + 1].into(), share }
    }

    fn of(&mut self, in_port: u32) -> &mut usize {
        let number = (in_port as usize) < self.held.len();
        &mut self.held[if number { in_port as usize } else { 0 }]
    }

    /// Deducts packets that were read.
    fn settle(&mut self, ring: &Ring, head: u64) {
        while self.seen < head {
            let [lengths, place] = [0, 1].map(|at| ring.word(self.seen + at).load(Ordering::Relaxed));
            let words = words(lengths as u32 as usize);
            *self.of(place as u32) -= words;
            self.seen += words as u64;
        }
    }
}

/// Returns the words that a packet of `len` bytes takes.
fn words(len: usize) -> usize {
    HEADER + len.div_ceil(8)
}

impl Ring {
    /// Returns a ring of `words` words, a power of two.
    pub(crate) fn new(words: usize) -> Ring {
        debug_assert!(words.is_power_of_two());
        Ring {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            head: Position(AtomicU64::new(0)),
            tail: Position(AtomicU64::new(0)),
            pushed: Counter::default(),
            lost: Counter::default(),
        }
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[at as usize & (self.words.len() - 1)]
    }

    /// Pushes a packet (worker side), or counts it as lost if its port has used up its share or the ring is full.
    pub(crate) fn push_fairly(&self, punt: &Punt, bytes: &[u8], shares: &mut Shares) -> bool {
        shares.settle(self, self.head.0.load(Ordering::Acquire));
        let (share, needed) = (shares.share, words(bytes.len()));
        let held = shares.of(punt.in_port);
        // A port's only packet may exceed the share, as long as the ring has room.
        if *held > 0 && *held + needed > share {
            self.lost.add(1);
            return false;
        }
        let taken = self.push(punt, bytes);
        *held += if taken { needed } else { 0 };
        taken
    }

    /// Pushes a packet without shares, for a ring of one port, or counts it as lost if there is no room.
    pub(crate) fn push(&self, punt: &Punt, bytes: &[u8]) -> bool {
        let tail = self.tail.0.load(Ordering::Relaxed);
        let used = (tail - self.head.0.load(Ordering::Acquire)) as usize;
        let needed = words(bytes.len());
        if needed > self.words.len() - used {
            self.lost.add(1);
            return false;
        }
        let lengths = u64::from(punt.total) << 32 | bytes.len() as u64;
        let place = u64::from(punt.table) << 40 | u64::from(punt.is_miss) << 32 | u64::from(punt.in_port);
        let header = [lengths, place, punt.cookie, punt.metadata];
        let body = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        for (at, word) in (tail..).zip(header.into_iter().chain(body)) {
            self.word(at).store(word, Ordering::Relaxed);
        }
        self.tail.0.store(tail + needed as u64, Ordering::Release);
        self.pushed.add(1);
        true
    }

    /// Returns an upper bound of the number of packets waiting.
    pub(crate) fn waiting(&self) -> u64 {
        let used = self.tail.0.load(Ordering::Acquire) - self.head.0.load(Ordering::Relaxed);
        used.div_ceil(HEADER as u64)
    }

    /// Pops the oldest packet (control side), and replaces the contents of `bytes` by its bytes.
    pub(crate) fn pop(&self, bytes: &mut Vec<u8>) -> Option<Punt> {
        let head = self.head.0.load(Ordering::Relaxed);
        if self.tail.0.load(Ordering::Acquire) == head {
            return None;
        }
        let read = |at: u64| self.word(at).load(Ordering::Relaxed);
        let [lengths, place, cookie, metadata] = [0, 1, 2, 3].map(|at| read(head + at));
        let len = lengths as u32 as usize;
        let end = head + words(len) as u64;
        bytes.clear();
        (head + HEADER as u64..end).for_each(|at| bytes.extend(read(at).to_ne_bytes()));
        bytes.truncate(len);
        self.head.0.store(end, Ordering::Release);
        Some(Punt {
            in_port: place as u32,
            cookie,
            table: (place >> 40) as u8,
            is_miss: place >> 32 & 1 != 0,
            metadata,
            total: (lengths >> 32) as u32,
        })
    }
}

/// Wake-up of the control side, once for all packets pushed before it answers.
pub(crate) struct EventNotifier {
    signalled: AtomicBool,
    fd: OwnedFd,
}

impl EventNotifier {
    pub(crate) fn new() -> std::io::Result<EventNotifier> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(EventNotifier { signalled: AtomicBool::new(false), fd })
    }

    /// Announces a packet: makes a system call only if it is not signalled already.
    pub(crate) fn notify(&self) {
        // Both sides exchange the flag, so the later one sees what the other did before.
        if !self.signalled.swap(true, Ordering::AcqRel) {
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// Clears the notifier. Call this before reading the rings.
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        self.signalled.swap(false, Ordering::AcqRel);
    }

    /// Returns a descriptor that is readable from [`EventNotifier::notify`] to [`EventNotifier::clear`].
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

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
                is_miss: n == 1,
                metadata: u64::MAX - u64::from(n),
                total: 100,
            });
            let packets = [vec![round as u8; round as usize % 60], vec![1, 2, 3]];
            for (punt, packet) in punts.iter().zip(&packets) {
                assert!(ring.push_fairly(punt, packet, &mut shares));
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

    #[test]
    fn a_port_that_floods_leaves_their_shares_to_others() {
        let ring = Ring::new(1 << 10);
        let mut shares = Shares::new(&ring, &[1, 2, 3, 5, 6, 7, 9]);
        let mut push = |in_port, len| {
            let punt = Punt { in_port, ..Punt::default() };
            ring.push_fairly(&punt, &[0; 1000][..len], &mut shares)
        };
        // Six ports in turn, with packets of all lengths, and a reader that pops now and then.
        for round in 0..200 {
            for port in [1, 2, 3, 5, 6, 7] {
                let taken = (0..500).filter(|n| push(port, (n * 7 + round) % 200)).count();
                assert!(taken > 0 || round % 4 != 0, "port {port} in round {round}");
            }
            assert!(push(9, 60) && push(u32::MAX, 60), "in round {round}");
            (0..1 + round % 3).for_each(|_| _ = ring.pop(&mut Vec::new()));
            while round % 4 == 3 && ring.pop(&mut Vec::new()).is_some() {}
        }
        while ring.pop(&mut Vec::new()).is_some() {}
        assert!(push(1, 8) && push(u32::MAX, 8));
        assert_eq!(shares.held.iter().sum::<usize>(), 2 * words(8), "all that was read is forgotten");
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// In every interleaving, packets come out whole and in order, and words are reused.
    #[test]
    fn packets_are_whole_and_in_order() {
        loom::model(|| {
            let ring = Arc::new(Ring::new(8));
            let worker = ring.clone();
            let worker = thread::spawn(move || {
                // All packets count for number 0, which has the whole ring.
                let mut shares = Shares::new(&worker, &[]);
                let mut push = |n: u32| {
                    let punt = Punt { in_port: n, cookie: n.into(), ..Punt::default() };
                    worker.push_fairly(&punt, &[n as u8; 9], &mut shares)
                };
                (1..=2).filter(|&n| push(n)).collect::<Vec<_>>()
            });
            let mut came = Vec::new();
            let mut bytes = Vec::new();
            let mut look = |came: &mut Vec<u32>| {
                if let Some(punt) = ring.pop(&mut bytes) {
                    assert_eq!(u64::from(punt.in_port), punt.cookie);
                    assert_eq!(bytes, [punt.in_port as u8; 9]);
                    came.push(punt.in_port);
                }
            };
            look(&mut came);
            let went = worker.join().unwrap();
            look(&mut came);
            look(&mut came);
            assert_eq!(came, went);
        });
    }

    /// No packet waits in a ring while the notifier is clear.
    #[test]
    fn nobody_sleeps_while_something_waits() {
        loom::model(|| {
            let (ring, signalled) = (Arc::new(Ring::new(8)), Arc::new(AtomicBool::new(false)));
            let (there, notifier) = (ring.clone(), signalled.clone());
            // Models the eventfd by the exchange: it is written if the flag was clear.
            let worker = thread::spawn(move || {
                there.push(&Punt::default(), &[]);
                !notifier.swap(true, Ordering::AcqRel)
            });
            signalled.swap(false, Ordering::AcqRel);
            let taken = ring.pop(&mut Vec::new()).is_some();
            let woke = worker.join().unwrap();
            assert!(taken || woke);
        });
    }
}
