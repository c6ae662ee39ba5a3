//! The memory-ordering functions, in every interleaving that the memory model allows.
//!
//! Each model has the two sides of one protocol, built from the functions that the rings use. A model proves something
//! only if it fails when the protocol is broken, so each has a broken twin that must panic. A side that waits does so
//! in a loop, and in a thread that did not create the words: loom does not explore the interleavings in which a single
//! look would have succeeded, and a thread that yields never again reads its own earlier writes.

use super::*;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU16, AtomicU64};
use loom::thread;

/// Slots of a ring, and chains offered: enough to fill the ring, and one that reuses a returned slot.
const SLOTS: usize = 2;
const OFFERS: u16 = 3;

/// A store function: [`publish`] or its broken twin.
type Store<W, V> = fn(&W, V);

/// A split ring of which only the words that carry a payload matter (virtio 1.2 §2.7.6, §2.7.8).
struct Split {
    /// The first word of descriptor `i`, which also stands for the content of its buffer.
    descriptors: [AtomicU64; SLOTS],
    avail: [AtomicU16; SLOTS],
    avail_idx: AtomicU16,
    used: [AtomicU16; SLOTS],
    used_idx: AtomicU16,
}

impl Split {
    fn new() -> Split {
        let zero = || AtomicU16::new(0);
        Split {
            descriptors: [AtomicU64::new(0), AtomicU64::new(0)],
            avail: [zero(), zero()],
            avail_idx: zero(),
            used: [zero(), zero()],
            used_idx: zero(),
        }
    }
}

/// The driver offers two descriptors at once, the device returns them, and the driver reuses the first one with
/// different content. Entries and descriptors are relaxed; only the indices order them.
fn split(offer: Store<AtomicU16, u16>, give_back: Store<AtomicU16, u16>) {
    let ring = Arc::new(Split::new());
    let device = {
        let ring = ring.clone();
        thread::spawn(move || {
            let mut next = 0;
            while next < OFFERS {
                let seen = consume(&ring.avail_idx);
                if seen == next {
                    thread::yield_now();
                    continue;
                }
                while next != seen {
                    let slot = usize::from(next) % SLOTS;
                    let head = get(&ring.avail[slot]);
                    assert!(head == 10 || head == 11, "an entry is read only once it is written");
                    let payload = get(&ring.descriptors[usize::from(head) - 10]);
                    assert_eq!(payload, 100 + u64::from(next), "a descriptor is read as it was offered");
                    put(&ring.used[slot], head);
                    next += 1;
                }
                give_back(&ring.used_idx, next);
            }
        })
    };
    let driver = thread::spawn(move || {
        for i in 0..SLOTS {
            put(&ring.descriptors[i], 100 + i as u64);
            put(&ring.avail[i], 10 + i as u16);
        }
        offer(&ring.avail_idx, SLOTS as u16);
        while consume(&ring.used_idx) != SLOTS as u16 {
            thread::yield_now();
        }
        for i in 0..SLOTS {
            assert_eq!(get(&ring.used[i]), 10 + i as u16, "a used entry is read only once it is written");
        }
        // The device returned it: it must no longer be reading it.
        put(&ring.descriptors[0], 102);
        put(&ring.avail[0], 10);
        offer(&ring.avail_idx, OFFERS);
    });
    driver.join().unwrap();
    device.join().unwrap();
}

#[test]
fn split_rings_carry_whole_entries_both_ways() {
    loom::model(|| split(publish, publish));
}

#[test]
#[should_panic(expected = "an entry is read only once it is written")]
fn a_relaxed_available_index_is_caught() {
    loom::model(|| split(put, publish));
}

#[test]
#[should_panic(expected = "a used entry is read only once it is written")]
fn a_relaxed_used_index_is_caught() {
    loom::model(|| split(publish, put));
}

/// One packed descriptor: the address, and length, id and flags in one word (virtio 1.2 §2.8.13).
struct Descriptor {
    addr: AtomicU64,
    tail: AtomicU64,
    /// The buffer after it, which the device writes.
    buffer: AtomicU64,
}

/// Flags of a tail in this model: the owner of the descriptor, in the first lap.
const AVAILABLE: u64 = 1 << 32;
const USED: u64 = 2 << 32;
const WHOSE: u64 = 3 << 32;

/// The driver offers a batch of two descriptors by the tail of the first, and the device returns the batch the same
/// way. Neither side may see a half-written batch, nor a used descriptor that is still being read.
fn packed(offer: Store<AtomicU64, u64>, give_back: Store<AtomicU64, u64>) {
    let zero = || AtomicU64::new(0);
    let descriptor = || Descriptor { addr: zero(), tail: zero(), buffer: zero() };
    let ring = Arc::new([descriptor(), descriptor()]);
    let device = {
        let ring = ring.clone();
        thread::spawn(move || {
            while consume(&ring[0].tail) & WHOSE != AVAILABLE {
                thread::yield_now();
            }
            for (i, d) in ring.iter().enumerate() {
                let tail = consume(&d.tail);
                assert_eq!(tail, AVAILABLE | (10 + i as u64), "a batch is seen whole");
                assert_eq!(get(&d.addr), 100 + i as u64, "an address is read as it was offered");
                put(&d.buffer, 200 + i as u64);
            }
            put(&ring[1].tail, USED | 11);
            give_back(&ring[0].tail, USED | 10);
        })
    };
    let driver = thread::spawn(move || {
        put(&ring[0].addr, 100);
        put(&ring[1].addr, 101);
        put(&ring[1].tail, AVAILABLE | 11);
        offer(&ring[0].tail, AVAILABLE | 10);
        while consume(&ring[0].tail) & WHOSE != USED {
            thread::yield_now();
        }
        assert_eq!(consume(&ring[1].tail), USED | 11, "a returned batch is seen whole");
        for (i, d) in ring.iter().enumerate() {
            assert_eq!(get(&d.buffer), 200 + i as u64, "a buffer is read only once it is filled");
            // The device returned it: it must no longer be reading it.
            put(&d.addr, 0);
        }
    });
    driver.join().unwrap();
    device.join().unwrap();
}

#[test]
fn packed_rings_carry_whole_batches_both_ways() {
    loom::model(|| packed(publish, publish));
}

#[test]
#[should_panic(expected = "an address is read as it was offered")]
fn a_relaxed_available_descriptor_is_caught() {
    loom::model(|| packed(put, publish));
}

#[test]
#[should_panic(expected = "a buffer is read only once it is filled")]
fn a_relaxed_used_descriptor_is_caught() {
    loom::model(|| packed(publish, put));
}

/// One side makes something available and checks whether the other wants a notification; the other asks for one, checks
/// once more and sleeps. By event index, as on split rings (virtio 1.2 §2.7.7.1, §2.7.10); either side of a ring can
/// play either role.
fn event_index(fence: fn()) {
    let index = Arc::new(AtomicU16::new(0));
    // Long ago, so that nothing crosses it unless it is rewritten.
    let event = Arc::new(AtomicU16::new(u16::MAX / 2));
    let waker = {
        let (index, event) = (index.clone(), event.clone());
        thread::spawn(move || {
            publish(&*index, 1);
            fence();
            crosses(get(&*event), 1, 0)
        })
    };
    put(&*event, 0);
    fence();
    let sleeps = consume(&*index) == 0;
    let woken = waker.join().unwrap();
    assert!(!sleeps || woken, "a sleeper is woken");
}

/// The same by flags: without EVENT_IDX on split rings (§2.7.6.1, §2.7.10.1), and on packed rings, where a descriptor
/// is made available (§2.8.10).
fn event_flags(fence: fn()) {
    const DISABLE: u16 = 1;
    let tail = Arc::new(AtomicU64::new(0));
    let flags = Arc::new(AtomicU16::new(DISABLE));
    let waker = {
        let (tail, flags) = (tail.clone(), flags.clone());
        thread::spawn(move || {
            publish(&*tail, AVAILABLE);
            fence();
            get(&*flags) != DISABLE
        })
    };
    put(&*flags, 0);
    fence();
    let sleeps = consume(&*tail) & WHOSE != AVAILABLE;
    let woken = waker.join().unwrap();
    assert!(!sleeps || woken, "a sleeper is woken");
}

#[test]
fn a_sleeper_by_event_index_is_woken() {
    loom::model(|| event_index(before_asking));
}

#[test]
fn a_sleeper_by_flags_is_woken() {
    loom::model(|| event_flags(before_asking));
}

#[test]
#[should_panic(expected = "a sleeper is woken")]
fn a_missing_fence_before_an_event_index_is_caught() {
    loom::model(|| event_index(|| {}));
}

#[test]
#[should_panic(expected = "a sleeper is woken")]
fn a_missing_fence_before_event_flags_is_caught() {
    loom::model(|| event_flags(|| {}));
}

/// One thread changes a watched range while a signal handler in another thread reads it: the words of two ranges are
/// never mixed.
fn range(change: fn(&AtomicU64, &dyn Fn()), read: fn(&AtomicU64, &dyn Fn() -> (u64, u64)) -> Option<(u64, u64)>) {
    let words = Arc::new([AtomicU64::new(0), AtomicU64::new(10), AtomicU64::new(11)]);
    let owner = {
        let words = words.clone();
        thread::spawn(move || {
            let [sequence, start, len] = &*words;
            for (to, size) in [(0, 0), (20, 21)] {
                change(sequence, &|| {
                    put(start, to);
                    put(len, size);
                });
            }
        })
    };
    let [sequence, start, len] = &*words;
    if let Some(range) = read(sequence, &|| (get(start), get(len))) {
        assert!([(10, 11), (0, 0), (20, 21)].contains(&range), "start and length belong together");
    }
    owner.join().unwrap();
}

#[test]
fn a_fault_finds_whole_ranges() {
    loom::model(|| range(|sequence, change| alter(sequence, change), |sequence, read| whole(sequence, read)));
}

#[test]
#[should_panic(expected = "start and length belong together")]
fn a_range_that_is_changed_without_sequence_is_caught() {
    loom::model(|| range(|_, change| change(), |sequence, read| whole(sequence, read)));
}

#[test]
#[should_panic(expected = "start and length belong together")]
fn a_range_that_is_read_without_sequence_is_caught() {
    loom::model(|| range(|sequence, change| alter(sequence, change), |_, read| Some(read())));
}

#[test]
#[should_panic(expected = "start and length belong together")]
fn a_change_without_fence_is_caught() {
    let change = |sequence: &AtomicU64, change: &dyn Fn()| {
        let before = get(sequence);
        put(sequence, before + 1);
        change();
        publish(sequence, before + 2);
    };
    loom::model(move || range(change, |sequence, read| whole(sequence, read)));
}
