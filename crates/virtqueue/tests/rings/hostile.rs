//! Known attacks and bugs of hostile or broken guests, as far as they concern rings and memory; each test is named
//! after its source. A queue that survives must still carry frames.

use crate::support::guest::{Guest, INDIRECT, NEXT, SIZE, WRITE, both, receive, transmit};
use crate::support::{Case, Driver, ROOM, frame};
use packet::{BurstStorage, MIN_FRAME};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use virtqueue::device::{Dequeue, DropCounts, Enqueue};
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::{Arena, Memory, MemoryError, Region};
use virtqueue::{Fatal, MAX_CHAIN, NET_HEADER, QueueConfig, SetupError};

fn still_sends(guest: &mut Guest, dequeue: &Dequeue) {
    let addr = guest.area(3, 100);
    guest.offer(&[(addr, 100 + NET_HEADER, 0)]);
    assert_eq!(receive(dequeue), Ok(vec![frame(3, 100)]), "packed {}", guest.packed);
}

fn still_receives(guest: &mut Guest, enqueue: &Enqueue) {
    let addr = guest.driver.area(3);
    guest.offer(&[(addr, ROOM, WRITE)]);
    let done = transmit(enqueue, &[&frame(7, 100)]).unwrap();
    assert_eq!(done.frames, 1, "packed {}", guest.packed);
    assert_eq!(guest.driver.read(addr + u64::from(NET_HEADER), 100), frame(7, 100));
}

/// Returns the address `back` bytes before the end of the guest's shared memory.
fn near_the_end(guest: &Guest, back: u64) -> u64 {
    let region = &guest.driver.arena.memory().regions()[0];
    region.guest_addr + region.len - back
}

#[test]
fn cve_2018_1059_a_buffer_that_is_not_all_mapped_is_returned() {
    both(|mut guest| {
        let dequeue = guest.driver.dequeue();
        let bad = [(near_the_end(&guest, 99), 100), (0, 100), (u64::MAX - 50, 100), (Arena::BASE - 1, 100)];
        for (addr, len) in bad {
            guest.offer(&[(addr, len, 0)]);
            guest.offer(&[(guest.driver.area(0), 100, 0), (addr, len, 0)]);
            assert_eq!(receive(&dequeue), Ok(vec![]));
        }
        assert_eq!(dequeue.dropped(), DropCounts { bad_buffer: 8, ..Default::default() });
        still_sends(&mut guest, &dequeue);
    });
    both(|mut guest| {
        let enqueue = guest.driver.enqueue();
        guest.offer(&[(near_the_end(&guest, 99), 100, WRITE)]);
        guest.offer(&[(guest.driver.area(0), 100, WRITE), (u64::MAX - 50, 100, WRITE)]);
        assert_eq!(transmit(&enqueue, &[&frame(1, 60)]).unwrap().no_buffers, 1);
        assert_eq!(enqueue.dropped().bad_buffer, 2);
        still_receives(&mut guest, &enqueue);
    });
}

#[test]
fn cve_2018_1059_a_ring_that_is_not_all_mapped_is_refused() {
    both(|guest| {
        let good = guest.driver.config;
        let end = near_the_end(&guest, 16);
        for bad in [
            QueueConfig { descriptors: end, ..good },
            QueueConfig { driver: near_the_end(&guest, 0), ..good },
            QueueConfig { device: u64::MAX - 15, ..good },
            QueueConfig { descriptors: 0, ..good },
        ] {
            let memory = guest.driver.arena.memory();
            assert!(matches!(Dequeue::new(memory.clone(), &bad), Err(SetupError::Unmapped { .. })), "{bad:?}");
            assert!(matches!(Enqueue::new(memory.clone(), &bad), Err(SetupError::Unmapped { .. })), "{bad:?}");
        }
    });
}

#[test]
fn cve_2020_10725_a_bad_address_with_length_zero_is_not_followed() {
    both(|mut guest| {
        let dequeue = guest.driver.dequeue();
        guest.offer(&[(u64::MAX, 0, 0)]);
        let addr = guest.area(0, 60);
        guest.offer(&[(addr, 60 + NET_HEADER, 0), (u64::MAX, 0, 0)]);
        assert_eq!(receive(&dequeue), Ok(vec![frame(0, 60)]));
        assert_eq!(dequeue.dropped().short, 1);
        still_sends(&mut guest, &dequeue);
    });
    both(|mut guest| {
        let enqueue = guest.driver.enqueue();
        guest.offer(&[(u64::MAX, 0, WRITE)]);
        assert_eq!(transmit(&enqueue, &[&frame(1, 60)]).unwrap().no_buffers, 1);
        still_receives(&mut guest, &enqueue);
    });
}

#[test]
fn cve_2022_2132_a_chain_without_a_frame_is_returned() {
    both(|mut guest| {
        let dequeue = guest.driver.dequeue();
        let addr = guest.driver.area(0);
        guest.offer(&[(addr, NET_HEADER, 0)]);
        guest.offer(&[(addr, NET_HEADER - 1, 0)]);
        guest.offer(&[(addr, NET_HEADER, 0), (addr, MIN_FRAME - 1, 0)]);
        guest.offer(&[(addr, 1, 0)]);
        assert_eq!(receive(&dequeue), Ok(vec![]));
        assert_eq!(dequeue.dropped(), DropCounts { short: 4, ..Default::default() });
        still_sends(&mut guest, &dequeue);
    });
}

#[test]
fn cve_2022_2132_a_header_over_many_descriptors_is_skipped_whole() {
    both(|mut guest| {
        let dequeue = guest.driver.dequeue();
        let addr = guest.area(0, 60);
        let cuts = [1, 1, 3, 5, 1, 1 + 20, 40];
        let mut end = addr;
        let chain = cuts.map(|len| {
            end += u64::from(len);
            (end - u64::from(len), len, 0)
        });
        guest.offer(&chain);
        assert_eq!(receive(&dequeue), Ok(vec![frame(0, 60)]));
        still_sends(&mut guest, &dequeue);
    });
}

#[test]
fn cve_2024_11614_offloads_that_a_guest_asks_for_are_not_looked_at() {
    both(|mut guest| {
        let (dequeue, addr) = (guest.driver.dequeue(), guest.area(0, 60));
        guest.driver.write(addr, &[0xff; NET_HEADER as usize]);
        guest.offer(&[(addr, 60 + NET_HEADER, 0)]);
        assert_eq!(receive(&dequeue), Ok(vec![frame(0, 60)]));
    });
}

#[test]
fn cve_2019_3900_one_byte_receive_buffers_end_the_frame_not_the_switch() {
    both(|mut guest| {
        let enqueue = guest.driver.enqueue();
        // Some laps of the ring.
        for round in 0..if cfg!(miri) { 6 } else { 20 } {
            let addr = guest.driver.area(round % SIZE);
            guest.offer(&[(addr, 1, WRITE)]);
            guest.offer(&[(addr, 1, WRITE), (addr, 1, WRITE)]);
            guest.offer(&[(addr, NET_HEADER, WRITE)]);
            guest.offer(&[(addr, 1, WRITE)]);
            let done = transmit(&enqueue, &[&frame(1, 60), &frame(2, 60)]).unwrap();
            assert_eq!(done.frames, 0, "{done:?}");
            // A buffer that holds just the header is kept for a frame whose bytes fit into the next ones, so use it up.
            guest.offer(&[(addr, ROOM, WRITE)]);
            let done = transmit(&enqueue, &[&frame(1, 60)]).unwrap();
            assert_eq!(done.frames, 1, "round {round}: {done:?}");
        }
        still_receives(&mut guest, &enqueue);
    });
}

#[test]
fn batch_of_2026_runt_receive_descriptors_do_not_underflow() {
    both(|mut guest| {
        let enqueue = guest.driver.enqueue();
        for len in 1..NET_HEADER {
            let addr = guest.driver.area(0);
            guest.driver.write(addr, &[0xee; 64]);
            guest.offer(&[(addr, len, WRITE)]);
            assert_eq!(transmit(&enqueue, &[&frame(1, 60)]).unwrap().no_buffers, 1);
            assert_eq!(guest.driver.read(addr, 64), [0xee; 64], "nothing is written to a buffer of {len} bytes");
        }
        assert_eq!(enqueue.dropped().short, u64::from(NET_HEADER) - 1);
        still_receives(&mut guest, &enqueue);
    });
}

#[test]
fn batch_of_2026_indirect_tables_are_checked() {
    let table = |guest: &Guest, parts: &[(u64, u32, u16)]| {
        let at = guest.driver.area(7);
        for (i, &part) in parts.iter().enumerate() {
            guest.descriptor(at + 16 * i as u64, part, i as u16 + 1);
        }
        at
    };
    both(|mut guest| {
        let dequeue = guest.driver.dequeue();
        let addr = guest.area(0, 60);
        let at = table(&guest, &[(addr, NET_HEADER, NEXT), (addr + u64::from(NET_HEADER), 60, 0)]);
        guest.offer(&[(at, 32, INDIRECT)]);
        assert_eq!(receive(&dequeue), Ok(vec![frame(0, 60)]));
        still_sends(&mut guest, &dequeue);
    });
    let end = |guest: &Guest| near_the_end(guest, 16);
    type Bad = fn(&Guest, u64) -> (u64, u32, u16);
    let cases: [Bad; 7] = [
        |_, at| (at, 0, INDIRECT),
        |_, at| (at, 33, INDIRECT),
        |_, at| (at, 16 * 1025, INDIRECT),
        |_, at| (at, 0xffff_fff0, INDIRECT),
        |_, at| (at + 1, 32, INDIRECT),
        |_, at| (at, 32, INDIRECT | NEXT),
        |_, _| (u64::MAX - 31, 32, INDIRECT),
    ];
    for bad in cases {
        both(|mut guest| {
            let at = table(&guest, &[(end(&guest), 16, 0), (end(&guest), 16, 0)]);
            let (dequeue, enqueue) = (guest.driver.dequeue(), guest.driver.enqueue());
            let bad = bad(&guest, at);
            guest.offer(&[bad]);
            assert_eq!(receive(&dequeue), Err(Fatal::BadIndirect), "{bad:x?}");
            assert_eq!(transmit(&enqueue, &[&frame(1, 60)]), Err(Fatal::BadIndirect), "{bad:x?}");
        });
    }
    // A table in a table. Packed tables have no such flag: there it is ignored.
    let mut guest = Guest::new(false);
    let inner = table(&guest, &[(0, 16, INDIRECT)]);
    guest.offer(&[(inner, 16, INDIRECT)]);
    assert_eq!(receive(&guest.driver.dequeue()), Err(Fatal::BadIndirect));
    // A table after another descriptor.
    both(|mut guest| {
        let addr = guest.area(0, 60);
        guest.offer(&[(addr, 72, 0), (addr, 16, INDIRECT)]);
        assert_eq!(receive(&guest.driver.dequeue()), Err(Fatal::BadIndirect));
    });
}

#[test]
fn batch_of_2026_regions_are_checked_before_they_are_mapped() {
    let refused = |regions: &[[u64; 3]]| {
        let region = |&[guest_addr, len, offset]: &[u64; 3]| Region {
            guest_addr,
            user_addr: 0,
            len,
            offset,
            file: Guest::new(false).driver.arena.memory().regions()[0].file.clone(),
        };
        Memory::map(regions.iter().map(region).collect()).unwrap_err()
    };
    assert!(matches!(refused(&[[0, 0, 0]]), MemoryError::BadLength { .. }));
    assert!(matches!(refused(&[[4096, u64::MAX - 4095, 0]]), MemoryError::BadLength { .. }));
    assert!(matches!(refused(&[[0, 4096, u64::MAX - 4095]]), MemoryError::BadLength { .. }));
    assert!(matches!(refused(&[[0, 1 << 40, 0]]), MemoryError::BeyondFile { .. }));
    assert!(matches!(refused(&[[0, 4096, 1 << 40]]), MemoryError::BeyondFile { .. }));
    assert!(matches!(refused(&[[0, 8192, 0], [4096, 8192, 0]]), MemoryError::Overlap { .. }));
}

/// Adjacent regions whose total, rounded up to pages, overflows a `u64`: their reservation must not wrap around to
/// almost nothing, or the first region would overwrite other mappings.
#[test]
#[cfg_attr(miri, ignore = "needs files of 2^63 bytes")]
fn regions_that_fill_all_addresses_are_refused() {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    let file = memfd_create("huge", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, i64::MAX as u64).unwrap();
    let file = Arc::new(file);
    let cuts = [0, 1 << 24, (1 << 63) + (1 << 23), u64::MAX];
    let region = |ends: &[u64]| Region {
        guest_addr: ends[0],
        user_addr: 0,
        len: ends[1] - ends[0],
        offset: 0,
        file: file.clone(),
    };
    assert!(matches!(Memory::map(cuts.windows(2).map(region).collect()), Err(MemoryError::TooLarge { .. })));
}

#[test]
fn no_cve_chains_that_loop_end_the_queue() {
    let mut guest = Guest::new(false);
    let (dequeue, enqueue) = (guest.driver.dequeue(), guest.driver.enqueue());
    let (addr, ring) = (guest.driver.area(0), guest.driver.config.descriptors);
    for flags in [NEXT, NEXT | WRITE] {
        guest.descriptor(ring, (addr, 8, flags), 1);
        guest.descriptor(ring + 16, (addr, 8, flags), 0);
    }
    guest.entry(0);
    guest.index(1);
    assert_eq!(receive(&dequeue), Err(Fatal::LongChain { size: SIZE }));
    assert_eq!(transmit(&enqueue, &[&frame(1, 60)]), Err(Fatal::LongChain { size: SIZE }));
    guest.descriptor(ring, (addr, 8, NEXT), SIZE);
    assert_eq!(receive(&dequeue), Err(Fatal::BadNext { next: SIZE, size: SIZE }));
    guest.entry(SIZE);
    guest.index(1);

    // A packed ring that is one endless chain.
    let mut guest = Guest::new(true);
    let addr = guest.driver.area(0);
    for _ in 0..SIZE {
        guest.offer(&[(addr, 8, NEXT)]);
    }
    assert_eq!(receive(&guest.driver.dequeue()), Err(Fatal::LongChain { size: SIZE }));
    assert_eq!(transmit(&guest.driver.enqueue(), &[&frame(1, 60)]), Err(Fatal::LongChain { size: SIZE }));
}

#[test]
#[cfg_attr(miri, ignore = "too many descriptors")]
fn no_cve_a_chain_as_long_as_a_large_ring_ends_the_queue() {
    for packed in [false, true] {
        let case = Case { packed, in_order: false, event_idx: false, mergeable: true, size: 2 * MAX_CHAIN };
        for (length, taken) in [(MAX_CHAIN, true), (MAX_CHAIN + 1, false)] {
            let mut driver = Driver::new(case);
            let area = driver.area(0);
            let buffers: Vec<Buffer> =
                (0..length).map(|i| Buffer { addr: area + 8 * u64::from(i), len: 8, writable: false }).collect();
            driver.queue.add(&buffers).unwrap();
            driver.queue.publish();
            let result = receive(&driver.dequeue()).map(|frames| frames.len());
            assert_eq!(
                result,
                if taken { Ok(1) } else { Err(Fatal::LongChain { size: MAX_CHAIN }) },
                "packed: {packed}"
            );
        }
    }
}

#[test]
fn no_cve_a_head_beyond_the_ring_ends_the_queue() {
    let mut guest = Guest::new(false);
    guest.entry(SIZE);
    guest.index(1);
    let bad = Fatal::BadHead { head: SIZE, size: SIZE };
    assert_eq!(receive(&guest.driver.dequeue()), Err(bad));
    assert_eq!(transmit(&guest.driver.enqueue(), &[&frame(1, 60)]), Err(bad));
}

#[test]
fn no_cve_an_available_index_that_jumps_ends_the_queue() {
    for moved in [SIZE + 1, 1 << 15, u16::MAX] {
        let mut guest = Guest::new(false);
        let (dequeue, enqueue) = (guest.driver.dequeue(), guest.driver.enqueue());
        guest.index(moved);
        assert!(dequeue.has_work(), "so that somebody looks");
        assert_eq!(receive(&dequeue), Err(Fatal::IndexJump { moved, size: SIZE }));
        assert_eq!(transmit(&enqueue, &[&frame(1, 60)]), Err(Fatal::IndexJump { moved, size: SIZE }));
    }
}

#[test]
fn no_cve_a_guest_that_sends_what_it_posted_gets_something() {
    both(|mut guest| {
        let (dequeue, addr) = (guest.driver.dequeue(), guest.area(0, 600));
        let negotiated = guest.driver.config.negotiated;
        let config = Queue::layout(&mut guest.driver.arena, SIZE, negotiated).unwrap();
        let mut posted = Queue::new(&guest.driver.arena, &config).unwrap();
        let enqueue = Enqueue::new(guest.driver.arena.memory().clone(), &config).unwrap();
        // Every overlap of source and destination, in both directions, from short to long.
        // Miri has one way to copy for all lengths: there, one that overlaps in part, one that does not, and both whole.
        let lengths = if cfg!(miri) { &[14, 600][..] } else { &[14, 15, 16, 40, 63, 64, 65, 200, 600] };
        let shifts = if cfg!(miri) { &[0, 13][..] } else { &[0, 1, 8, 13, 100] };
        for &len in lengths {
            for &shift in shifts {
                guest.offer(&[(addr, len + NET_HEADER, 0)]);
                let mut storage = Box::<BurstStorage>::default();
                let mut burst = storage.start();
                assert_eq!(dequeue.receive(&mut burst), Ok(1));
                posted.add(&[Buffer { addr: addr + shift, len: ROOM / 2, writable: true }]).unwrap();
                posted.publish();
                assert_eq!(enqueue.transmit(burst.frames()).unwrap().frames, 1);
                dequeue.recycle();
                assert_eq!(posted.pop_used().unwrap().unwrap().len, len + NET_HEADER);
            }
        }
    });
}

/// The guest keeps changing the length in a descriptor while it is being read.
#[test]
#[cfg_attr(miri, ignore = "races on purpose")]
fn no_cve_a_length_that_changes_after_the_check_is_not_read_again() {
    both(|mut guest| {
        let dequeue = guest.driver.dequeue();
        let region = &guest.driver.arena.memory().regions()[0];
        let start = guest.driver.arena.host(region.guest_addr, region.len).unwrap().as_ptr() as usize;
        let mapped = start..=start + region.len as usize;
        let word = guest.driver.arena.host(guest.driver.config.descriptors + 8, 8).unwrap().as_ptr() as usize;
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: the length of the first descriptor, in memory that outlives this scope; aligned to four.
                let len = unsafe { std::sync::atomic::AtomicU32::from_ptr(word as *mut u32) };
                while !stop.load(Ordering::Relaxed) {
                    for value in [72, u32::MAX, 0, ROOM, 11, 1 << 30, 80] {
                        len.store(value, Ordering::Relaxed);
                    }
                }
            });
            let mut storage = Box::<BurstStorage>::default();
            for _ in 0..20_000 {
                let addr = guest.area(0, 60);
                (guest.slot, guest.wrap) = if guest.packed { (guest.slot, guest.wrap) } else { (0, true) };
                guest.offer(&[(addr, 72, 0)]);
                let mut burst = storage.start();
                assert_eq!(dequeue.receive(&mut burst), Ok(1));
                for frame in burst.frames().as_slice() {
                    let (at, len) = (frame.first().as_ptr() as usize, frame.first().len() as usize);
                    assert_eq!(len, frame.len() as usize);
                    assert!(mapped.contains(&at) && mapped.contains(&(at + len)));
                }
                dequeue.recycle();
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
#[cfg_attr(miri, ignore = "needs signals")]
fn no_cve_a_guest_that_shrinks_its_memory_breaks_only_itself() {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    both(|guest| {
        let len = 1 << 20;
        let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, len).unwrap();
        let file = Arc::new(file);
        let region = Region { guest_addr: Arena::BASE, user_addr: 0, len, offset: 0, file: file.clone() };
        let memory = Arc::new(Memory::map(vec![region]).unwrap());
        let config = QueueConfig {
            descriptors: Arena::BASE,
            driver: Arena::BASE + 4096,
            device: Arena::BASE + 8192,
            ..guest.driver.config
        };
        let (dequeue, enqueue) = (Dequeue::new(memory.clone(), &config), Enqueue::new(memory.clone(), &config));
        ftruncate(&*file, 0).unwrap();
        assert_eq!(receive(&dequeue.unwrap()), Ok(vec![]), "what is gone reads as zeros");
        assert_eq!(transmit(&enqueue.unwrap(), &[&frame(1, 60)]).unwrap().no_buffers, 1);
        assert!(memory.is_broken());
        assert!(!guest.driver.arena.memory().is_broken());
    });
}

/// A driver publishes chains one by one while the device reads: an index read byte by byte would jump.
#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn rustsec_2020_0157_indices_are_never_torn() {
    let guest = Guest::new(false);
    let dequeue = guest.driver.dequeue();
    let addr = guest.area(0, 60);
    (0..SIZE).for_each(|slot| {
        guest.descriptor(guest.driver.config.descriptors + 16 * u64::from(slot), (addr, 72, 0), 0);
    });
    let host = |addr| guest.driver.arena.host(addr, 2).unwrap().as_ptr() as usize;
    let (avail, used) = (host(guest.driver.config.driver + 2), host(guest.driver.config.device + 2));
    // SAFETY: both indices lie in memory that outlives this test, aligned to two.
    let index = |at: usize| unsafe { AtomicU16::from_ptr(at as *mut u16) };
    // More than an index counts to.
    const ROUNDS: u32 = 80_000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut next = 0u16;
            for _ in 0..ROUNDS {
                while next.wrapping_sub(index(used).load(Ordering::Acquire)) >= SIZE {
                    std::thread::yield_now();
                }
                next = next.wrapping_add(1);
                index(avail).store(next, Ordering::Release);
            }
        });
        let mut storage = Box::<BurstStorage>::default();
        let mut taken = 0;
        while taken < ROUNDS {
            let mut burst = storage.start();
            let now = dequeue.receive(&mut burst).unwrap() as u32;
            dequeue.recycle();
            taken += now;
            if now == 0 {
                std::thread::yield_now();
            }
        }
        assert_eq!(taken, ROUNDS);
    });
}
